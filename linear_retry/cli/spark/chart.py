"""Draws strategies' attempts beside the durations of outages on a terminal."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from math import ceil, exp, log

from linear_retry.cli.output.rows import is_terminal
from linear_retry.strategy.delays import duration_text
from linear_retry.tuning.durations import Estimate

_NARROWEST, _WIDEST = 76, 120
_NAME = 10
_HEIGHTS = " ▁▂▃▄▅▆▇█"
_TICKS_MS = (
    1000,
    10_000,
    60_000,
    600_000,
    3_600_000,
    6 * 3_600_000,
    24 * 3_600_000,
    168 * 3_600_000,
)


def draw(strategies: Mapping[str, Sequence[int]], durations: Estimate) -> None:
    """Draws the chart if stdout is a terminal that is wide enough."""
    if not is_terminal():
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    if console.width >= _NARROWEST and not console.options.ascii_only:
        for line, style in lines(strategies, durations, min(console.width, _WIDEST)):
            console.print(Text(line, style, no_wrap=True))


def lines(
    strategies: Mapping[str, Sequence[int]], durations: Estimate, width: int
) -> Iterator[tuple[str, str]]:
    """The lines with their styles: when outages end, each strategy's attempts, and the time.

    The scale of time is logarithmic.
    """
    moments = {name: list(accumulate(delays_ms)) for name, delays_ms in strategies.items()}
    known = [at for each in moments.values() for at in (*each[:1], *each[-1:]) if at > 0]
    scale = _Scale(min(known, default=1000), max(known, default=1000), width - _NAME)
    yield _line("outages", _heights(durations, scale)), "red"
    for name, each in moments.items():
        yield _line(name, _attempts(each, scale)), "bold"
    yield _line("", _ticks(scale)), "dim"


class _Scale:
    """A logarithmic scale from the first moment to the last in `width` cells."""

    def __init__(self, first_ms: int, last_ms: int, width: int) -> None:
        self.width = width
        self._first = log(first_ms)
        self._step = max(log(last_ms) - self._first, 1e-9) / (width - 1)

    def cell(self, moment_ms: int) -> int:
        """The cell of a moment; below 0, or `width` and more, if it is off the scale."""
        return round((log(max(moment_ms, 1)) - self._first) / self._step)

    def edges_ms(self) -> list[float]:
        """The cells' edges; the first cell holds what is before it too."""
        edges = (exp(self._first + (cell - 0.5) * self._step) for cell in range(1, self.width + 1))
        return [0.0, *edges]


def _line(name: str, cells: str) -> str:
    return f"{name[: _NAME - 1]:<{_NAME}}{cells}".rstrip()


def _heights(durations: Estimate, scale: _Scale) -> str:
    ended = durations.within(scale.edges_ms()).tolist()
    shares = [after - before for before, after in pairwise(ended)]
    # The first holds all that is shorter, and would dwarf the others.
    most = max(shares[1:]) or 1
    tallest = len(_HEIGHTS) - 1
    # Rounded up: no share is invisible.
    return "".join(_HEIGHTS[min(tallest, ceil(share / most * tallest))] for share in shares)


def _attempts(moments_ms: Sequence[int], scale: _Scale) -> str:
    counts = Counter(max(0, scale.cell(at_ms)) for at_ms in moments_ms)
    marks = ("·", "×", *"23456789")
    return "".join(
        marks[counts[cell]] if counts[cell] < len(marks) else "+" for cell in range(scale.width)
    )


def _ticks(scale: _Scale) -> str:
    cells = " " * scale.width
    for at_ms in _TICKS_MS:
        text, cell = f"└{duration_text(at_ms)}", scale.cell(at_ms)
        fits = cell >= 0 and cell + len(text) <= scale.width
        if fits and cells[max(0, cell - 1) : cell + len(text)].isspace():
            cells = cells[:cell] + text + cells[cell + len(text) :]
    return cells
