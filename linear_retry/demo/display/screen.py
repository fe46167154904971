"""Shows the run as a live picture on a terminal."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from linear_retry.demo.display.watching import Circuits
from linear_retry.demo.record import Progress, Record
from linear_retry.log.event_text import text_of
from linear_retry.retry.circuits import CircuitView
from linear_retry.scope import Scope
from linear_retry.testing.event_log import EventEmitted

_EVENTS_SHOWN = 8
_COLOURS = {"closed": "green", "open": "red", "half-open": "yellow"}


class Screen:
    """A live view that `draw` updates; the last view stays when the `with` ends.

    It reads the record and `circuits` (the consumer's snapshot), and nothing else.
    """

    def __init__(
        self,
        record: Record,
        circuits: Circuits,
        console: Console | None = None,
        *,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self._record = record
        self._circuits = circuits
        self._now = now or partial(datetime.now, UTC)
        console = console or Console(highlight=False)
        self._live = Live(console=console, auto_refresh=False, redirect_stderr=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def draw(self) -> None:
        """Draws the current state."""
        self._live.update(self.picture(), refresh=True)

    def picture(self) -> RenderableType:
        """The current state."""
        progress = self._record.progress()
        circuit = self._circuits().get(Scope(), CircuitView("closed"))
        return Group(
            Panel(_circuit(circuit, self._now()), title="circuit", title_align="left"),
            _bars(progress),
            _counts(progress),
            _last_events(self._record.events(), self._record.started_s),
        )


def _circuit(view: CircuitView, now: datetime) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{view.state.upper():<10}", style=f"bold {_COLOURS[view.state]}")
    if view.retry_at is None:
        return text.append("orders are consumed")
    left_s = max((view.retry_at - now).total_seconds(), 0.0)
    text.append(f"retry_at {view.retry_at:%H:%M:%S} UTC, in ")
    text.append(f"{left_s:4.1f} s", style="bold")
    if view.offset is not None:
        text.append(f"   held: {view.partition}@{view.offset}, failures: {view.failures}")
    return text


def _bars(progress: Progress) -> Table:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    table.add_column(justify="right", no_wrap=True)
    for partition in progress.partitions:
        done = partition.paid + partition.dead_lettered
        letters = f" + {partition.dead_lettered} dead" if partition.dead_lettered else ""
        table.add_row(
            f" partition {partition.partition}",
            ProgressBar(total=partition.total, completed=done),
            f"{partition.paid}{letters} of {partition.total}",
        )
    return table


def _counts(progress: Progress) -> Text:
    """One line: what has been paid, and the answers of the service."""
    answers = progress.answers
    return Text(
        f" {progress.elapsed_s:5.1f} s   paid {progress.paid} of {progress.total}   "
        f"dead letters {progress.dead_lettered}   attempts {answers.total()}   "
        f"refused {answers['refused']}   503 {answers['unavailable']}\n",
        no_wrap=True,
        overflow="ellipsis",
    )


def _last_events(events: list[EventEmitted], started_s: float) -> Text:
    shown = [
        f" {noted.at_s - started_s:5.1f} s  {text_of(noted.event)}"
        for noted in events[-_EVENTS_SHOWN:]
    ]
    # A fixed number of lines, or the view would jump.
    shown += [""] * (_EVENTS_SHOWN - len(shown))
    return Text("\n".join(shown), no_wrap=True, overflow="ellipsis")
