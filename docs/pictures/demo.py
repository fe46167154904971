"""Runs the demo and keeps what it shows at work: `python -m docs.pictures.demo`."""

import io
import re
from datetime import timedelta
from pathlib import Path

from rich.console import Console, RenderableType
from rich.terminal_theme import MONOKAI

from linear_retry.demo.display import Circuits, Screen
from linear_retry.demo.evidence import Record
from linear_retry.demo.run import embedded_topics, run
from linear_retry.scope import Scope

PICTURE = Path(__file__).with_suffix(".svg")
_COLUMNS = 110
_LEFT = timedelta(seconds=1)


class _Camera(Screen):
    """Keeps the last picture of a circuit that waits a second or longer."""

    picture_while_open: RenderableType = ""

    def __init__(self, record: Record, circuits: Circuits) -> None:
        super().__init__(record, circuits, Console(file=io.StringIO()))
        self._circuits_now = circuits

    def draw(self) -> None:
        view = self._circuits_now().get(Scope())
        if view is not None and view.retry_at is not None and view.retry_at - self._now() > _LEFT:
            type(self).picture_while_open = self.picture()


def _write(picture: RenderableType, path: Path, title: str) -> None:
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(picture)
    svg = console.export_svg(title=title, theme=MONOKAI)
    # The fonts would come from elsewhere, and where the picture is shown that is refused.
    path.write_text(re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL), "utf-8")


def main() -> None:
    """Writes the picture. It is of a real run, so its times differ from one to the next."""
    with embedded_topics() as topics:
        run(topics, _Camera)
    _write(_Camera.picture_while_open, PICTURE, "make demo")


if __name__ == "__main__":
    main()
