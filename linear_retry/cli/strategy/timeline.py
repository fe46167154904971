"""Draws one outage to scale on a line."""

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

from rich.text import Text

from linear_retry.strategy.delays import duration_text
from linear_retry.strategy.simulation import Recovered, Simulation

_OUTAGE, _IDLE, _FAILS, _SUCCEEDS, _GIVES_UP = "▒", "░", "×", "✓", "†"
_STYLES = {
    _OUTAGE: "red",
    _IDLE: "yellow",
    _SUCCEEDS: "bold green",
    _GIVES_UP: "bold red",
}
_LEGEND = "▒ down   ░ idle   × fails (2 to 9: count, +: more)  ✓ succeeds  † gives up"


def timeline(simulation: Simulation, width: int) -> Text:
    """Draws four lines: a bar of `width` cells (76 or more), its two marks, and a legend."""
    scale = _Scale(max(simulation.outage_ms, simulation.ending.at_ms), width)
    cells = "".join(_cells(simulation, scale))
    bar = Text.assemble(
        *(("".join(same), _STYLES.get(cell, "bold white on red")) for cell, same in groupby(cells))
    )
    lines = [bar, *_marks(simulation, scale), Text(_LEGEND, "dim")]
    return Text("\n", no_wrap=True, overflow="ellipsis").join(lines)


class _Scale:
    """From 0 to `end_ms` in `width` cells."""

    def __init__(self, end_ms: int, width: int) -> None:
        self._end_ms = max(end_ms, 1)
        self.width = width

    def cell(self, moment_ms: int) -> int:
        return min(moment_ms * self.width // self._end_ms, self.width - 1)

    def from_ms(self, cell: int) -> int:
        """Returns the first moment in `cell`."""
        return -(-cell * self._end_ms // self.width)


def _cells(simulation: Simulation, scale: _Scale) -> Iterator[str]:
    ending = simulation.ending
    for cell in range(scale.width):
        since_ms, until_ms = scale.from_ms(cell), scale.from_ms(cell + 1)
        failed = sum(run.before(until_ms) - run.before(since_ms) for run in simulation.failures)
        if cell == scale.cell(ending.at_ms):
            yield _SUCCEEDS if isinstance(ending, Recovered) else _GIVES_UP
        elif failed:
            yield _FAILS if failed == 1 else str(failed) if failed < 10 else "+"
        else:
            yield _OUTAGE if since_ms < simulation.outage_ms else _IDLE


def _marks(simulation: Simulation, scale: _Scale) -> Iterator[Text]:
    """Yields a line for each end, the earlier one first."""
    ending = simulation.ending
    end = "success" if isinstance(ending, Recovered) else ending.outcome
    marks = [(simulation.outage_ms, "dependency back"), (ending.at_ms, end)]
    for at_ms, what in sorted(marks, key=itemgetter(0)):
        cell, text = scale.cell(at_ms), f"{duration_text(at_ms)} {what}"
        fits = len(text) < cell
        yield Text(f"{text} ┘".rjust(cell + 1) if fits else f"{' ' * cell}└ {text}")
