"""Draws boxes, arrows and text as SVG that is legible in light and in dark."""

from collections.abc import Sequence
from typing import Literal, TypeAlias
from xml.sax.saxutils import escape

Kind: TypeAlias = Literal["plain", "done", "failed", "open", "held"]
Point: TypeAlias = tuple[float, float]

# Its own background: the page that shows it may be light while the reader's system is dark.
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.small { font-size: 12px; fill: #59636e }
.strong { font-weight: 600 }
.page { fill: #ffffff; stroke: #d1d9e0 }
.line { fill: none; stroke: #59636e; stroke-width: 1.5 }
.dashed { stroke-dasharray: 5 4 }
.head { fill: #59636e }
.plain { fill: #f6f8fa; stroke: #818b98 }
.done { fill: #dafbe1; stroke: #1a7f37 }
.failed { fill: #ffebe9; stroke: #cf222e }
.open { fill: #fff8c5; stroke: #9a6700 }
.held { fill: #ddf4ff; stroke: #0969da }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .small { fill: #9198a1 }
  .page { fill: #0d1117; stroke: #3d444d }
  .line { stroke: #9198a1 }
  .head { fill: #9198a1 }
  .plain { fill: #1c2128; stroke: #656c76 }
  .done { fill: #12301e; stroke: #3fb950 }
  .failed { fill: #3c1618; stroke: #f85149 }
  .open { fill: #33280c; stroke: #d29922 }
  .held { fill: #10243e; stroke: #4493f8 }
}
"""
_ARROW = (
    '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto-start-reverse"><path class="head" d="M0 0 8 4 0 8z"/></marker>'
)
_LINE_PX = 17


class Drawing:
    """A picture to draw on; `svg` returns its text."""

    def __init__(self, title: str, width: int, height: int) -> None:
        self._title = title
        self._size = (width, height)
        self._parts: list[str] = []

    def box(self, at: Point, size: Point, text: str = "", kind: Kind = "plain") -> None:
        """Draws a box with its top left corner at a point, and centered text."""
        (x, y), (width, height) = at, size
        self._parts.append(
            f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
            'rx="4"/>'
        )
        self.text((x + width / 2, y + height / 2), text, anchor="middle")

    def text(
        self, at: Point, text: str, style: str = "", anchor: Literal["start", "middle"] = "start"
    ) -> None:
        """Draws lines of text, centered vertically at a point."""
        x, y = at
        lines = text.split("\n") if text else []
        top = y - (len(lines) - 1) * _LINE_PX / 2 + 4.5
        classes = f' class="{style}"' if style else ""
        self._parts += [
            f'<text{classes} x="{x:g}" y="{top + row * _LINE_PX:g}" text-anchor="{anchor}">'
            f"{escape(line)}</text>"
            for row, line in enumerate(lines)
        ]

    def arrow(self, points: Sequence[Point], style: str = "") -> None:
        """Draws a line through points, with an arrowhead at its end."""
        self._path(points, style, ' marker-end="url(#arrow)"')

    def line(self, points: Sequence[Point], style: str = "") -> None:
        """Draws a line through points."""
        self._path(points, style, "")

    def time_axis(self, start: float, end: float, y: float) -> None:
        """Draws the time axis: an arrow to the right, with its name below the head."""
        self.arrow(((start, y), (end, y)))
        self.text((end - 20, y + 16), "time", "small", "middle")

    def _path(self, points: Sequence[Point], style: str, end: str) -> None:
        path = " ".join(f"{x:g} {y:g}" for x, y in points)
        self._parts.append(f'<path class="{f"line {style}".strip()}" d="M{path}"{end}/>')

    def svg(self) -> str:
        """Returns the whole picture."""
        width, height = self._size
        page = f'<rect class="page" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}"'
        return "\n".join(
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                f'width="{width}" height="{height}" role="img">',
                f"<title>{escape(self._title)}</title>",
                f"<style>{_STYLE}</style>",
                f"<defs>{_ARROW}</defs>",
                f'{page} rx="8"/>',
                *self._parts,
                "</svg>\n",
            )
        )
