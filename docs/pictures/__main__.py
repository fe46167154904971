"""Draws the pictures of the documentation: `python -m docs.pictures`."""

from pathlib import Path

from docs.pictures.circuit import circuit
from docs.pictures.message import message
from docs.pictures.rebalance import rebalance
from docs.pictures.replay import replay
from docs.pictures.scopes import scopes

PICTURES = (circuit, message, rebalance, replay, scopes)
FOLDER = Path(__file__).parent


def main() -> None:
    """Write each picture beside the function's module."""
    for draw in PICTURES:
        (FOLDER / f"{draw.__name__}.svg").write_text(draw().svg(), "utf-8")


if __name__ == "__main__":
    main()
