"""Displays show the state of the run, and fit where they are shown."""

import io
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from threading import Event as Signal

import pytest
from rich.console import Console, RenderableType

from linear_retry import events as e
from linear_retry.demo.display import JsonLines, Lines, Screen, json_proof, table, watching
from linear_retry.demo.evidence import Record, Request, Verdict
from linear_retry.retry.circuits import CircuitView
from linear_retry.scope import Place, Scope
from linear_retry.testing.event_log import AttemptFinished
from tests.patience import PATIENCE_S

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
ERROR = "ConnectError('[Errno 111] Connection refused')"
OPENED = e.CircuitOpened(Scope(), "orders", 0, 1, ERROR, 1, 2.5, NOW + timedelta(seconds=2.5))
CLOSED = e.CircuitClosed(Scope(), "recovered", 3.5)
LETTER = e.DeadLettered(
    "orders", 1, 0, "orders.dlq", "id", 1, "permanent", "PaymentRejected('422')", 1, ()
)
ORDERS = {Place("orders", 0, 0): "a", Place("orders", 0, 1): "b", Place("orders", 1, 0): "c"}


class Time:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def record(time: Time) -> Record:
    return Record(ORDERS, clock=time)


def _shown(renderable: RenderableType, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(renderable)
    return out.getvalue().splitlines()


def _screen(record: Record, circuits: Mapping[Scope, CircuitView]) -> Screen:
    return Screen(record, lambda: circuits, Console(file=io.StringIO()), now=lambda: NOW)


@pytest.mark.parametrize("width", [80, 120])
def test_the_picture_fits_a_terminal(record: Record, width: int) -> None:
    """24 lines at most, none cut by the terminal, however many and long the events are."""
    for _ in range(50):
        record.log.listener("")(OPENED)
    open_view = CircuitView("open", OPENED.retry_at, 1, "orders", 0, 1, ERROR)
    shown = _shown(_screen(record, {Scope(): open_view}).picture(), width)
    assert len(shown) <= 23
    assert max(len(text) for text in shown) <= width


@pytest.mark.parametrize(
    ("circuits", "words"),
    [
        ({}, "CLOSED"),
        ({Scope(): CircuitView("closed")}, "CLOSED"),
        (
            {Scope(): CircuitView("open", OPENED.retry_at, 2, "orders", 0, 1, ERROR)},
            "OPEN      retry_at 12:00:02 UTC, in  2.5 s   held: 0@1, failures: 2",
        ),
        ({Scope(): CircuitView("open", NOW - timedelta(seconds=1))}, "in  0.0 s"),
        ({Scope(): CircuitView("half-open", NOW)}, "HALF-OPEN"),
    ],
)
def test_the_picture_says_how_the_circuit_stands(
    record: Record, circuits: Mapping[Scope, CircuitView], words: str
) -> None:
    """Its state, and while it is open the countdown to `retry_at` and what is held."""
    assert words in "\n".join(_shown(_screen(record, circuits).picture(), 80))


def test_the_picture_counts(record: Record) -> None:
    """Orders of each partition, attempts, and what was refused."""
    record.requests += [Request("a", "paid"), Request("b", "refused"), Request("b", "unavailable")]
    record.log.entries.append(AttemptFinished(1, "", Place("orders", 0, 0), "done"))
    record.log.listener("")(LETTER)
    shown = "\n".join(_shown(_screen(record, {}).picture(), 80))
    for words in ("1 of 2", "0 + 1 dead of 1", "paid 1 of 3", "dead letters 1", "attempts 3"):
        assert words in shown
    assert "refused 1   503 1" in shown


def test_a_drawn_screen_stays_when_it_is_left(record: Record) -> None:
    """What it showed last is still there afterwards."""
    out = io.StringIO()
    with Screen(record, dict, Console(file=out, width=80)) as screen:
        screen.draw()
    assert "CLOSED" in out.getvalue()


def test_lines_show_each_event_once_and_progress_each_second(record: Record, time: Time) -> None:
    """For a pipe: no colours, nothing twice, and a sign of life between the events."""
    out = io.StringIO()
    with Lines(record, dict, out) as lines:
        record.log.listener("")(OPENED)
        for now_s in (0.1, 0.2, 1.1, 1.2, 2.2):
            time.now_s = now_s
            lines.draw()
        record.log.listener("")(CLOSED)
        lines.draw()
    output = out.getvalue().splitlines()
    assert ["circuit open", "progress", "progress", "circuit closed"] == [
        re.split(r"  | \(", text[10:])[0] for text in output
    ]
    assert "\x1b" not in out.getvalue()


def test_json_lines_are_one_object_for_each_event(record: Record, time: Time) -> None:
    """Each with its time since the start, its name and its own fields."""
    out = io.StringIO()
    with JsonLines(record, dict, out) as lines:
        time.now_s = 1.5
        record.log.listener("")(OPENED)
        lines.draw()
        record.log.listener("")(CLOSED)
        lines.draw()
    opened, closed = (json.loads(text) for text in out.getvalue().splitlines())
    assert (1.5, "CircuitOpened", 2.5) == (opened["at_s"], opened["event"], opened["delay_s"])
    assert "2026-01-01T12:00:02.500000+00:00" == opened["retry_at"]
    assert "CircuitClosed" == closed["event"]


VERDICTS = (
    Verdict("this holds", "10 of 10", ()),
    Verdict("this does not", "3 of 10", tuple(f"reason {number}" for number in range(7))),
)


def test_the_table_says_what_speaks_against_a_claim() -> None:
    """OK or FAILED for each, the first reasons below, and how many are not shown."""
    shown = "\n".join(_shown(table(VERDICTS), 80))
    for words in ("10 of 10", "OK", "FAILED", "this does not: FAILED", "reason 4", "and 2 more"):
        assert words in shown
    assert "reason 5" not in shown
    assert "this holds: FAILED" not in shown


def test_the_proof_is_one_json_object() -> None:
    """With every violation, and one word for the whole."""
    output = json.loads(json_proof(VERDICTS))
    assert not output["holds"]
    assert [True, False] == [verdict["holds"] for verdict in output["proof"]]
    assert 7 == len(output["proof"][1]["violations"])
    assert json.loads(json_proof(VERDICTS[:1]))["holds"]


class _Display(Lines):
    """Counts, and fails if it is told to."""

    def __init__(self, error: OSError | None = None) -> None:
        self.drawn = Signal()
        self._error = error

    def draw(self) -> None:
        self.drawn.set()
        if self._error is not None:
            raise self._error


def test_a_thread_draws_while_the_main_thread_works() -> None:
    """Inside the `with` without being asked, and once more at its end."""
    display = _Display()
    with watching(display, lambda: None, every_s=0.001):
        assert display.drawn.wait(PATIENCE_S)
    display.drawn.clear()
    with watching(display, lambda: None, every_s=3600):
        assert not display.drawn.is_set()
    assert display.drawn.is_set()


def test_who_has_gone_ends_the_run() -> None:
    """A reader that closes its pipe stops the consumer, and the error comes out at the end."""
    stopped = Signal()
    with (
        pytest.raises(BrokenPipeError),
        watching(_Display(BrokenPipeError()), stopped.set, every_s=0.001),
    ):
        assert stopped.wait(PATIENCE_S)
