"""Does an operator read everything that happened, once, and no payload?"""

from __future__ import annotations

import dataclasses
import logging
from datetime import UTC, datetime
from typing import Any, get_args

import pytest

from linear_retry.events import (
    Assigned,
    CircuitClosed,
    CircuitOpened,
    Commanded,
    DataLost,
    DeadLettered,
    DeadLetterFailed,
    Event,
    LimitReached,
    PartitionRevived,
    ProbeFailed,
    RetentionTooShort,
    RetriedNow,
    Stopped,
)
from linear_retry.log import log, log_listener_failure
from linear_retry.scope import Scope

_SAMPLES: dict[str, Any] = {
    "partitions": (("orders", 3), ("refunds", 0)),
    "reason": "the reason",
    "scope": Scope("orders"),
    "topic": "orders",
    "partition": 3,
    "offset": 1042,
    "error": "TimeoutError('no answer')",
    "failures": 17,
    "delay_s": 12.5,
    "retry_at": datetime(2026, 1, 2, 3, 4, 5, 678_900, UTC),
    "outcome": "recovered",
    "command": "give-up",
    "by": "ops@desk",
    "answer": "done",
    "command_id": "0b8e1c0e-7c38-4d53-8d1a-6a9a6a0c7f11",
    "open_s": 61.25,
    "dead_letter_topic": "orders.dlq",
    "retry_id": "billing/orders/3/1042/1767225600000",
    "generation": 2,
    "escaped_headers": ("trace",),
    "sends": 4,
    "limit": 20,
    "early_s": 4.75,
    "retry_group_id": "shipping",
    "next_offset": 2000,
    "took_s": 400.0,
    "limit_s": 300.0,
    "overruns": 2,
    "code": "_TRANSPORT",
    "text": "broker down",
    "count": 10,
    "retention_ms": 3_600_000,
    "strategy_total_s": 7200.0,
    "left_group": True,
}
_TYPES: tuple[type[Any], ...] = get_args(Event)
_LEVELS = {
    "Assigned": logging.INFO,
    "Revoked": logging.INFO,
    "Lost": logging.WARNING,
    "CircuitOpened": logging.WARNING,
    "ProbeFailed": logging.WARNING,
    "RetriedNow": logging.WARNING,
    "Commanded": logging.WARNING,
    "CircuitClosed": logging.INFO,
    "DeadLettered": logging.ERROR,
    "DeadLetterFailed": logging.ERROR,
    "LimitReached": logging.ERROR,
    "Skipped": logging.ERROR,
    "PassedOver": logging.INFO,
    "LeakDropped": logging.INFO,
    "PartitionRevived": logging.WARNING,
    "DataLost": logging.ERROR,
    "HandlerTooSlow": logging.ERROR,
    "CommitFailed": logging.WARNING,
    "ClientError": logging.WARNING,
    "ClientRenewed": logging.WARNING,
    "RetentionTooShort": logging.WARNING,
    "Stopped": logging.INFO,
}


def _sample(kind: type[Any], **changes: Any) -> Any:
    values = {field.name: _SAMPLES[field.name] for field in dataclasses.fields(kind)}
    return kind(**values | changes)


def _line(event: Event, caplog: pytest.LogCaptureFixture) -> str:
    caplog.clear()
    caplog.set_level(logging.DEBUG, "linear_retry")
    log(event)
    (record,) = caplog.records
    return record.getMessage()


@pytest.mark.parametrize("kind", _TYPES)
def test_every_event_is_one_line(kind: type[Any], caplog: pytest.LogCaptureFixture) -> None:
    """Each event makes exactly one record, of one line, at its level, on the one logger."""
    line = _line(_sample(kind), caplog)
    assert line
    assert "\n" not in line
    assert [("linear_retry", _LEVELS[kind.__name__])] == [
        (record.name, record.levelno) for record in caplog.records
    ]


@pytest.mark.parametrize("kind", _TYPES)
def test_every_event_is_a_frozen_value(kind: type[Any]) -> None:
    """Events are equal by value and cannot be changed by one listener behind another's back."""
    event = _sample(kind)
    assert _sample(kind) == event
    assert hash(_sample(kind)) == hash(event)
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
        setattr(event, dataclasses.fields(kind)[0].name, None)


def _with(*names: str) -> list[type[Any]]:
    return [
        kind for kind in _TYPES if set(names) <= {field.name for field in dataclasses.fields(kind)}
    ]


@pytest.mark.parametrize("kind", _with("topic", "partition", "offset"))
def test_an_event_about_a_message_says_where(
    kind: type[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Topic, partition and offset are in the line."""
    line = _line(_sample(kind), caplog)
    assert "orders[3]" in line
    assert "1042" in line


@pytest.mark.parametrize("kind", _with("partitions"))
def test_an_event_about_partitions_names_each(
    kind: type[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """All of them are in the line, and an empty list is a word."""
    assert "orders[3], refunds[0]" in _line(_sample(kind), caplog)
    assert "nothing" in _line(_sample(kind, partitions=()), caplog)


@pytest.mark.parametrize("name", ["error", "scope", "retry_id", "dead_letter_topic", "reason"])
def test_what_an_event_knows_is_in_its_line(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """What an operator searches for is in the line of every event that knows it."""
    lines = {kind: _line(_sample(kind), caplog) for kind in _with(name)}
    assert [] == [kind.__name__ for kind, line in lines.items() if str(_SAMPLES[name]) not in line]


def test_no_event_carries_key_or_payload() -> None:
    """What no event has, no listener and no log can give away."""
    names = {field.name for kind in _TYPES for field in dataclasses.fields(kind)}
    assert set() == names & {"key", "value", "payload", "headers", "message"}
    assert set() == set(_SAMPLES) - names


@pytest.mark.parametrize(
    ("kind", "beginning"),
    [(CircuitOpened, "circuit open (orders)"), (ProbeFailed, "circuit stays open (orders)")],
)
def test_the_line_about_a_wait_says_everything(
    kind: type[CircuitOpened | ProbeFailed], beginning: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What failed, where, why, how often, for how long and until when: in one line."""
    expected = (
        f"{beginning}: orders[3]@1042 failed (TimeoutError('no answer')), failures so far: 17; "
        "next attempt in 12.5 s, at 2026-01-02T03:04:05.678+00:00"
    )
    assert expected == _line(_sample(kind), caplog)


def test_the_line_about_a_letter_held_back_says_why_and_until_when(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """How many there were in a row, and everything that is said of any wait, is in it."""
    line = _line(_sample(LimitReached), caplog)
    assert "held back (orders): 20 in a row without a success" in line
    assert "failures so far: 17; next attempt in 12.5 s, at 2026-01-02T03:04:05.678" in line


def test_the_line_about_an_unsent_letter_says_when_it_is_sent_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """How often it was sent, the delay and the time of the next sending are in it."""
    line = _line(_sample(DeadLetterFailed), caplog)
    assert "sendings so far: 4; again in 12.5 s, at 2026-01-02T03:04:05.678+00:00" in line


@pytest.mark.parametrize(
    ("event", "part"),
    [
        (_sample(RetriedNow), "failures so far: 17; 4.750 s before its time"),
        (_sample(Commanded), "by ops@desk: give-up orders[3]@1042: done (command 0b8e"),
        (_sample(CircuitClosed), "recovered after 61.250 s"),
        (_sample(DeadLettered), "generation 2; headers kept in escaped form: trace"),
        (_sample(PartitionRevived), "begins anew at 1042: the reason"),
        (_sample(PartitionRevived, offset=None), "at the committed offset"),
        (_sample(DataLost), "goes on at 2000."),
        (
            _sample(RetentionTooShort),
            "waits 7200 s in total, and orders keeps its messages for 3600 s",
        ),
        (_sample(Stopped), "left the group"),
        (_sample(Stopped, left_group=False), "wait for its return"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_line_reads_well_in_either_case(
    event: Event, part: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What may be missing has words of its own."""
    assert part in _line(event, caplog)


def test_nothing_is_said_of_escaped_headers_where_there_are_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The usual letter's line ends with its generation."""
    line = _line(_sample(DeadLettered, escaped_headers=()), caplog)
    assert line.endswith("generation 2")


def test_a_percent_sign_in_an_event_is_text(caplog: pytest.LogCaptureFixture) -> None:
    """An error that reads like a format is logged as it is."""
    assert "100%s %d" in _line(_sample(CircuitOpened, error="100%s %d"), caplog)


def test_an_assignment_of_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A member with more members than partitions reads that it has none."""
    assert "assigned: nothing" == _line(Assigned(()), caplog)


def test_a_listener_that_raises_is_logged_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Which listener, and what it raised."""
    try:
        raise LookupError("bug in the listener")
    except LookupError:
        log_listener_failure("my listener")
    (record,) = caplog.records
    assert logging.ERROR == record.levelno
    assert "'my listener'" in record.getMessage()
    assert "bug in the listener" in caplog.text
