"""Draws the demo while a circuit is open: `python -m docs.pictures.demo`."""

import io
import re
from datetime import timedelta
from pathlib import Path

from rich.console import Console, RenderableType
from rich.terminal_theme import MONOKAI

from linear_retry.demo.display.screen import Screen
from linear_retry.demo.display.watching import Circuits
from linear_retry.demo.record import Record
from linear_retry.demo.run import embedded_topics, run
from linear_retry.scope import Scope

PICTURE = Path(__file__).with_suffix(".svg")
_COLUMNS = 110
_LEFT = timedelta(seconds=1)


class _Camera(Screen):
    """Keeps the last view with a circuit that waits for a second or longer."""

    picture_while_open: RenderableType = ""

    def __init__(self, record: Record, circuits: Circuits) -> None:
        super().__init__(record, circuits, Console(file=io.StringIO()))
        self._circuits_now = circuits

    def draw(self) -> None:
        view = self._circuits_now().get(Scope())
        if view is not None and view.retry_at is not None and view.retry_at - self._now() > _LEFT:
            type(self).picture_while_open = self.picture()


def main() -> None:
    """Writes the picture, of a real run, so its times differ each time."""
    with embedded_topics() as topics:
        run(topics, _Camera)
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(_Camera.picture_while_open)
    svg = console.export_svg(title="make demo", theme=MONOKAI)
    # The fonts would be loaded from another site, which pages that show the picture forbid.
    PICTURE.write_text(re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL), "utf-8")


if __name__ == "__main__":
    main()
