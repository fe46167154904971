"""Shows the demo: live on a terminal, or as lines; then its proof."""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from threading import Event, Thread
from typing import Protocol, Self, TextIO, TypeAlias

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from linear_retry.demo.evidence import Progress, Record, Verdict
from linear_retry.log.event_text import text_of
from linear_retry.retry.circuits import CircuitView
from linear_retry.scope import Scope
from linear_retry.testing.event_log import EventEmitted

_PROGRESS_EVERY_S = 1.0
_EVENTS_SHOWN = 8
_VIOLATIONS_SHOWN = 5
_COLOURS = {"closed": "green", "open": "red", "half-open": "yellow"}

Circuits: TypeAlias = Callable[[], Mapping[Scope, CircuitView]]
"""Returns a snapshot of the consumer's circuits."""


class Display(AbstractContextManager["Display"], Protocol):
    """Something that shows the state of the run."""

    def draw(self) -> None: ...


MakeDisplay: TypeAlias = Callable[[Record, Circuits], Display]
"""Creates the display of a run from its record and the circuits."""


@contextmanager
def watching(display: Display, give_up: Callable[[], None], every_s: float = 0.1) -> Iterator[None]:
    """Draws from a thread inside the `with`, and once more at the end.

    If drawing fails (a closed pipe), `give_up` is called, and the error is raised when the `with`
    ends.
    """
    ended = Event()
    errors: list[OSError] = []

    def draw_until_the_end() -> None:
        try:
            while not ended.wait(every_s):
                display.draw()
        except OSError as error:
            errors.append(error)
            give_up()

    thread = Thread(target=draw_until_the_end, name="screen", daemon=True)
    with display:
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            if not errors:
                display.draw()
    if errors:
        raise errors[0]


@contextmanager
def without_log_lines() -> Iterator[None]:
    """Keeps the consumer's log off stderr, where it would spoil the display; handlers stay."""
    logger, silence = logging.getLogger("linear_retry"), logging.NullHandler()
    logger.addHandler(silence)
    try:
        yield
    finally:
        logger.removeHandler(silence)


class JsonLines:
    """One JSON object for each event."""

    def __init__(self, record: Record, _: Circuits, out: TextIO | None = None) -> None:
        """`out`: stdout, where it is None."""
        self._record = record
        self._out = out
        self._drawn = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to restore."""

    def draw(self) -> None:
        """Writes what is new."""
        for noted in self._record.events(self._drawn):
            self._drawn += 1
            self._write(self._line(noted))

    def _line(self, noted: EventEmitted) -> str:
        """One JSON object: `at_s` (since the start), `event`, and the event's own fields."""
        at_s = round(noted.at_s - self._record.started_s, 4)
        head = {"at_s": at_s, "event": type(noted.event).__name__}
        return json.dumps(head | asdict(noted.event), default=_plain)

    def _write(self, line: str) -> None:
        print(line, file=self._out, flush=True)


class Lines(JsonLines):
    """One line for each event, and one a second for the progress. No colours, no cursor."""

    _next_progress_s = _PROGRESS_EVERY_S

    def draw(self) -> None:
        super().draw()
        progress = self._record.progress()
        if progress.elapsed_s < self._next_progress_s:
            return
        self._next_progress_s = progress.elapsed_s + _PROGRESS_EVERY_S
        answers = progress.answers
        partitions = " ".join(str(one.paid + one.dead_lettered) for one in progress.partitions)
        self._write(
            f"{progress.elapsed_s:6.2f} s  "
            f"progress        paid {progress.paid} of {progress.total} ({partitions}), "
            f"attempts {answers.total()}, refused {answers['refused']}, "
            f"503 {answers['unavailable']}"
        )

    def _line(self, noted: EventEmitted) -> str:
        return f"{noted.at_s - self._record.started_s:6.2f} s  {text_of(noted.event)}"


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


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


def table(verdicts: Iterable[Verdict], title: str = "proof") -> RenderableType:
    """Returns a row for each claim, and below them the first violations of those that fail."""
    verdicts = tuple(verdicts)
    rows = Table(title=title, title_justify="left", expand=False)
    rows.add_column("claim")
    rows.add_column("figures")
    rows.add_column("", no_wrap=True)
    for verdict in verdicts:
        colour, word = ("green", "OK") if verdict.holds else ("red", "FAILED")
        rows.add_row(verdict.claim, verdict.figures, Text(word, style=f"bold {colour}"))
    return Group(rows, *(_violations(verdict) for verdict in verdicts if not verdict.holds))


def _violations(verdict: Verdict) -> Text:
    shown = [f"  {text}" for text in verdict.violations[:_VIOLATIONS_SHOWN]]
    hidden = len(verdict.violations) - len(shown)
    shown += [f"  and {hidden} more"] * bool(hidden)
    return Text("\n".join((f"{verdict.claim}: FAILED", *shown)))


def json_proof(verdicts: Iterable[Verdict]) -> str:
    """One JSON object: `proof`, a list of the verdicts, and whether all of them hold."""
    proof = [asdict(verdict) | {"holds": verdict.holds} for verdict in verdicts]
    return json.dumps({"proof": proof, "holds": all(verdict["holds"] for verdict in proof)})
