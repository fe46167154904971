"""Draws the diagrams of the documentation: `python -m docs.pictures`."""

from pathlib import Path

from docs.pictures.diagrams.circuit import circuit
from docs.pictures.diagrams.keys import keys
from docs.pictures.diagrams.message import message
from docs.pictures.diagrams.rebalance import rebalance
from docs.pictures.diagrams.replay import replay
from docs.pictures.diagrams.retry_topics import retry_topics
from docs.pictures.diagrams.scopes import scopes

DIAGRAMS = (circuit, keys, message, rebalance, replay, retry_topics, scopes)
FOLDER = Path(__file__).parent


def main() -> None:
    """Writes each under the name of its function."""
    for draw in DIAGRAMS:
        (FOLDER / f"{draw.__name__}.svg").write_text(draw().svg(), "utf-8")


if __name__ == "__main__":
    main()
