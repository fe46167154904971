"""The event log has everything, in order, with its time."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from linear_retry import BatchError, events
from linear_retry.testing import (
    Appended,
    AttemptFinished,
    AttemptStarted,
    Committed,
    Crashed,
    Disturbed,
    Entry,
    EventEmitted,
    EventLog,
    Idle,
    Place,
    StateSize,
    when_done,
)
from linear_retry.testing.event_log import AttemptOutcome
from tests.testing.logs import P0, P1, letter

_PLACE = Place(*P0, 7)
_MESSAGE = SimpleNamespace(
    topic=lambda: "orders", partition=lambda: 0, offset=lambda: 7, headers=list
)


class Clock:
    """One second later each time it is asked."""

    def __init__(self) -> None:
        self.at_s = 0.0

    def __call__(self) -> float:
        self.at_s += 1
        return self.at_s


@pytest.fixture
def log() -> EventLog:
    return EventLog(Clock())


def fail(_: object) -> None:
    raise OSError("down")


def leave(_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("handler", "raised", "outcome"),
    [(str, None, "done"), (fail, OSError, "failed"), (leave, KeyboardInterrupt, "interrupted")],
)
def test_an_attempt_has_a_beginning_and_an_end(
    log: EventLog,
    handler: Callable[[object], object],
    raised: type[BaseException] | None,
    outcome: AttemptOutcome,
) -> None:
    """How it ended is written down; what was raised is raised."""
    with nullcontext() if raised is None else pytest.raises(raised):
        log.handler("one", handler)(_MESSAGE)
    assert [
        AttemptStarted(1, "one", _PLACE),
        AttemptFinished(2, "one", _PLACE, outcome),
    ] == log.entries


def _nth(offset: int) -> SimpleNamespace:
    return SimpleNamespace(**vars(_MESSAGE) | {"offset": lambda: offset})


@pytest.mark.parametrize(
    ("error", "outcomes"),
    [
        (None, [(7, "done"), (8, "done"), (9, "done")]),
        (OSError(), [(9, "failed"), (8, "failed"), (7, "failed")]),
        (BatchError(1, OSError()), [(7, "done"), (8, "failed")]),
        (BatchError(-1, OSError()), [(7, "interrupted")]),
        (KeyboardInterrupt(), [(7, "interrupted")]),
    ],
)
def test_a_batch_is_an_attempt_of_its_first_message(
    log: EventLog, error: BaseException | None, outcomes: list[tuple[int, AttemptOutcome]]
) -> None:
    """It ends for each message that is done or has failed."""

    def handle(messages: list[object]) -> int:
        if error is not None:
            raise error
        return len(messages)

    watched = log.batch_handler("one", handle)
    with nullcontext() if error is None else pytest.raises(type(error)):
        assert 3 == watched([_nth(7), _nth(8), _nth(9)])
    started, *finished = log.entries
    assert AttemptStarted(1, "one", _PLACE) == started
    assert outcomes == [
        (each.place.offset, each.outcome) for each in finished if isinstance(each, AttemptFinished)
    ]


def test_an_awaited_attempt_ends_when_it_has_been_awaited(log: EventLog) -> None:
    """Not when the handler gives its coroutine."""

    async def handle(_: object) -> None:
        await asyncio.sleep(0)
        log.state_size("one", 1, 1)

    asyncio.run(log.async_handler("one", handle)(_MESSAGE))  # type: ignore[arg-type]  # a coroutine
    assert [AttemptStarted, StateSize, AttemptFinished] == [type(entry) for entry in log.entries]


def test_what_the_consumer_says(log: EventLog) -> None:
    """The listener of a member writes its name."""
    event = events.Assigned((P0,))
    log.listener("one")(event)
    assert [EventEmitted(1, "one", event)] == log.entries


def test_what_is_committed(log: EventLog) -> None:
    """The answer to a commit; what was refused, in whole or in part, is not."""
    reported = log.on_commit("one")
    stored = SimpleNamespace(topic="orders", partition=0, offset=3, error=None)
    refused = SimpleNamespace(topic="orders", partition=1, offset=3, error="unknown")
    reported(None, [stored, refused])
    reported("refused", [stored])
    reported(None, [])
    log.committed({P1: 4})
    assert [Committed(1, "one", {P0: 3}), Committed(2, "", {P1: 4})] == log.entries


def test_who_watches_can_say_more(log: EventLog) -> None:
    """What is there, what stands in the way, what is kept, who was away."""
    log.appended(P0, [7])
    with log.disturbing("broker down"):
        log.state_size("one", 2, 3)
    log.idle("one", 1.0)
    log.idle("one", 100.0)
    assert [
        Appended(1, "", _PLACE),
        Disturbed(2, "", "broker down", over=False),
        StateSize(3, "one", 2, 3),
        Disturbed(4, "", "broker down", over=True),
        Idle(6, "one", 1.0),
    ] == log.entries


def test_a_watcher_receives_each_entry(log: EventLog) -> None:
    """From when it was given, in order."""
    received: list[Entry] = []
    log.state_size("one", 1, 1)
    log.watch(received.append)
    log.state_size("one", 2, 2)
    assert log.entries[1:] == received


def test_done_is_what_is_handled_or_dead_lettered(log: EventLog) -> None:
    """`when_done` calls once, when the last of all partitions is done."""
    calls: list[int] = []
    when_done(log, {P0: [7], P1: [1]}, lambda: calls.append(len(log.entries)))
    log.handler("one", str)(_MESSAGE)
    assert [] == calls
    log.listener("one")(letter(1, 1, 1, P1).event)
    log.handler("one", str)(_MESSAGE)
    assert [3] == calls


def test_nothing_to_wait_for_is_done_at_once(log: EventLog) -> None:
    """An empty topic, or one that was read before: a consumer would never be told to stop."""
    calls: list[str] = []
    when_done(log, {P0: []}, lambda: calls.append("empty"))
    log.handler("one", str)(_MESSAGE)
    when_done(log, {P0: [7]}, lambda: calls.append("read before"))
    assert ["empty", "read before"] == calls


def test_a_handler_gives_what_it_gave(log: EventLog) -> None:
    """A consumer finds out by it that a handler would have to be awaited, and refuses it."""
    assert "returned" == log.handler("one", lambda _: "returned")(_MESSAGE)


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        (AttemptStarted(1.5, "one", _PLACE), "1.500 one: orders[0]@7 is attempted"),
        (AttemptFinished(1.5, "one", _PLACE, "done"), "1.500 one: orders[0]@7 is done"),
        (Committed(2, "", {P1: 3, P0: 8}), "2.000: committed are orders[0]: 8, orders[1]: 3"),
        (Committed(2, "one", {}), "2.000 one: committed are no offsets"),
        (Appended(2, "", _PLACE), "2.000: orders[0]@7 is there"),
        (Disturbed(2, "", "broker down", over=True), "2.000: broker down, over"),
        (Idle(3, "one", 2), "3.000 one: away since 2.000"),
        (StateSize(3, "one", 4, 3), "3.000 one: 4 entries are kept, at most 3 may be"),
        (EventEmitted(3, "one", events.Stopped(True)), "3.000 one: Stopped(left_group=True)"),
    ],
)
def test_an_entry_is_a_line_to_read(entry: Entry, line: str) -> None:
    """When, who, what."""
    assert line == str(entry)


def test_threads_write_in_the_order_of_time() -> None:
    """No entry comes before one of an earlier time, and a watcher has one at a time, in order."""
    log, seen = EventLog(), list[Entry]()

    def watch(entry: Entry) -> None:
        before = len(seen)
        time.sleep(0)  # whoever may come in between does
        seen[before:] = [entry]

    log.watch(watch)
    with ThreadPoolExecutor(4) as pool:
        for member in range(4):
            for _ in range(500):
                pool.submit(log.state_size, str(member), 1, 2)
    times = [entry.at_s for entry in log.entries]
    assert times == sorted(times)
    assert seen == log.entries
    assert 2000 == len(seen)


def test_a_watcher_may_write() -> None:
    """What it writes comes after what it was told."""
    log = EventLog(Clock())
    log.watch(lambda entry: log.crashed("two") if isinstance(entry, StateSize) else None)
    log.state_size("one", 1, 2)
    assert [StateSize(1, "one", 1, 2), Crashed(2, "two")] == log.entries
