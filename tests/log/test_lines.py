"""Every event is one line of the log, without payloads."""

import dataclasses
import io
import json
import logging
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, get_args

import pytest

from linear_retry.events import (
    Assigned,
    CircuitClosed,
    CircuitOpened,
    CommandAnswered,
    DataLost,
    DeadLettered,
    DeadLetterFailed,
    Event,
    HeldMessageAtRisk,
    LimitLifted,
    LimitReached,
    PartitionRevived,
    ProbeFailed,
    RetentionTooShort,
    RetriedNow,
    Stopped,
    WaitEnded,
)
from linear_retry.log.lines import (
    log,
    log_control_garbled,
    log_control_silent,
    log_handler_failed,
    log_journal_losses,
    log_journal_topic_missing,
    log_listener_failure,
)
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
    "retry_topic": "orders.billing.retry.5m",
    "step": 2,
    "short_s": 30.0,
    "what": "recovery callback",
    "source": "orders",
    "retry_id": "billing/orders/3/1042/1767225600000",
    "generation": 2,
    "escaped_headers": ("trace",),
    "attempts": 4,
    "limit": 20,
    "letters": 5000,
    "remaining_s": 4.75,
    "retry_group_id": "shipping",
    "next_offset": 2000,
    "stalled_s": 61.25,
    "elapsed_s": 400.0,
    "max_poll_interval_s": 300.0,
    "code": "_TRANSPORT",
    "count": 10,
    "retention_ms": 3_600_000,
    "age_s": 3000.0,
    "strategy_total_s": 7200.0,
    "path": "pay.json",
    "until": datetime(2026, 1, 2, 4, 0, 0, 0, UTC),
    "closed": True,
    "paused_s": 1799.5,
    "recovered": True,
    "held_s": 61.25,
    "before": "pay@0123456789ab",
    "strategy": "pay@ba9876543210",
    "left_group": True,
    "messages": 500,
    "group_instance_id": "pod-1",
}
_TYPES: tuple[type[Any], ...] = get_args(Event)
_LEVELS = {
    "Assigned": logging.INFO,
    "Revoked": logging.INFO,
    "Lost": logging.WARNING,
    "CircuitOpened": logging.WARNING,
    "ProbeFailed": logging.WARNING,
    "RetriedNow": logging.WARNING,
    "WaitEnded": logging.WARNING,
    "LimitLifted": logging.WARNING,
    "PausedByHand": logging.WARNING,
    "PauseEnded": logging.WARNING,
    "HeldByGroup": logging.WARNING,
    "GroupHoldEnded": logging.INFO,
    "StrategyReloaded": logging.WARNING,
    "StrategyRefused": logging.ERROR,
    "CommandAnswered": logging.WARNING,
    "CircuitClosed": logging.INFO,
    "BatchTakenApart": logging.WARNING,
    "KeyBlocked": logging.ERROR,
    "DeadLettered": logging.ERROR,
    "SentToRetry": logging.WARNING,
    "HandedOver": logging.WARNING,
    "ReturnedToSource": logging.INFO,
    "DeadLetterFailed": logging.ERROR,
    "LimitReached": logging.ERROR,
    "Skipped": logging.ERROR,
    "PassedOver": logging.INFO,
    "LeakDropped": logging.INFO,
    "PartitionRevived": logging.WARNING,
    "PartitionUnreadable": logging.ERROR,
    "PartitionReadable": logging.WARNING,
    "DataLost": logging.ERROR,
    "HandlerTooSlow": logging.ERROR,
    "CommitFailed": logging.WARNING,
    "ClientError": logging.WARNING,
    "ClientReplaced": logging.WARNING,
    "InstanceIdTaken": logging.WARNING,
    "HeldMessageAtRisk": logging.WARNING,
    "WaitingBehind": logging.INFO,
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
    [(CircuitOpened, "circuit open (orders)"), (ProbeFailed, "circuit still open (orders)")],
)
def test_the_line_about_a_wait_says_everything(
    kind: type[CircuitOpened | ProbeFailed], beginning: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What failed, where, why, how often, for how long and until when: in one line."""
    expected = (
        f"{beginning}: orders[3]@1042, failures: 17, next attempt in 12.5 s, at "
        "2026-01-02T03:04:05.678+00:00: TimeoutError('no answer')"
    )
    assert expected == _line(_sample(kind), caplog)


@pytest.mark.parametrize(
    ("event", "part"),
    [
        (_sample(RetriedNow), "failures: 17, 4.750 s early"),
        (_sample(CommandAnswered), "give-up orders[3]@1042 by ops@desk: done (command 0b8e"),
        (_sample(WaitEnded), "the next message is attempted 4.750 s early"),
        (_sample(LimitLifted), "until a success, or for 5000 messages: 'the reason'"),
        (_sample(LimitLifted, letters=None), "until a success: 'the reason'"),
        (_sample(LimitLifted, reason="a\nb"), "a success, or for 5000 messages: 'a\\nb'"),
        (_sample(CircuitClosed), "recovered after 61.250 s"),
        (
            _sample(LimitReached),
            "held back (orders): 20 have left the line in a row without a success",
        ),
        (_sample(LimitReached), "failures: 17, next attempt in 12.5 s, at 2026-01-02T03:04:05.678"),
        (_sample(DeadLetterFailed), "attempts: 4, next attempt in 12.5 s, at 2026-01-02T03:04:05"),
        (_sample(DeadLettered), "generation 2, escaped headers: trace: TimeoutError"),
        (_sample(PartitionRevived), "is fetched again from 1042: the reason"),
        (_sample(PartitionRevived, offset=None), "from the committed offset"),
        (_sample(DataLost), "the next offset is 2000."),
        (_sample(DataLost, next_offset=7), "reading continues at offset 7. Either the broker"),
        (
            _sample(HeldMessageAtRisk),
            "orders[3]@1042 is held, and 3000 s old, where orders keeps its messages for 3600 s",
        ),
        (
            _sample(RetentionTooShort),
            "waits 7200 s in total, but orders keeps its messages for 3600 s",
        ),
        (_sample(Stopped), "left the group"),
        (_sample(Stopped, left_group=False), "still a static member"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_line_reads_well_in_either_case(
    event: Event, part: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What may be missing has words of its own."""
    assert part in _line(event, caplog)


def test_escaped_headers_are_left_out_where_there_are_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In the usual letter's line the error follows its generation."""
    line = _line(_sample(DeadLettered, escaped_headers=()), caplog)
    assert line.endswith("generation 2: TimeoutError('no answer')")


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


@pytest.mark.parametrize("kind", _TYPES)
def test_the_fields_of_an_event_are_attributes_of_its_record(
    kind: type[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Flat, as JSON can have them, each with a prefix: a log store searches them, and parses no
    line. No attribute of a record is overwritten, which `logging` refuses with a KeyError."""
    _line(_sample(kind), caplog)
    found = {
        name.removeprefix("linear_retry_"): value
        for name, value in vars(caplog.records[0]).items()
        if name.startswith("linear_retry_")
    }
    names = {field.name for field in dataclasses.fields(kind)}
    assert names | {"event"} == set(found)
    assert kind.__name__ == found["event"]
    assert found == json.loads(json.dumps(found))


def test_a_field_is_as_plain_as_it_can_be(caplog: pytest.LogCaptureFixture) -> None:
    """Numbers stay numbers; a scope, a partition and a time are texts as in the line."""
    _line(_sample(CircuitOpened), caplog)
    opened = vars(caplog.records[0])
    _line(_sample(Assigned), caplog)
    assigned = vars(caplog.records[0])
    assert (
        *("orders", "orders", 3, 1042, 17, 12.5),
        "2026-01-02T03:04:05.678900+00:00",
        ["orders[3]", "refunds[0]"],
    ) == (
        *(opened["linear_retry_scope"], opened["linear_retry_topic"]),
        *(opened["linear_retry_partition"], opened["linear_retry_offset"]),
        *(opened["linear_retry_failures"], opened["linear_retry_delay_s"]),
        opened["linear_retry_retry_at"],
        assigned["linear_retry_partitions"],
    )


@pytest.mark.parametrize(
    ("delay_s", "text"), [(1.234567, "1.235 s"), (7_213.456789, "7213.457 s"), (5.0, "5 s")]
)
def test_a_wait_is_logged_in_milliseconds(
    delay_s: float, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The bug: a short wait with jitter had microseconds, and a long one no milliseconds."""
    line = _line(_sample(CircuitOpened, delay_s=delay_s), caplog)
    assert f"next attempt in {text}, at" in line


@pytest.mark.parametrize(
    ("write", "fields"),
    [
        (lambda: log_listener_failure(7), {"event": "ListenerFailed", "listener": "7"}),
        (
            lambda: log_handler_failed("orders[3]@1042", "KeyError('id')", "Traceback"),
            {"event": "HandlerFailed", "place": "orders[3]@1042", "error": "KeyError('id')"},
        ),
        (
            lambda: log_journal_losses(
                "journal", "pod-1", 3, datetime(2026, 1, 2, tzinfo=UTC), "down"
            ),
            {
                "event": "JournalLosses",
                "topic": "journal",
                "member": "pod-1",
                "dropped": 3,
                "since": "2026-01-02T00:00:00+00:00",
                "error": "down",
            },
        ),
        (
            lambda: log_journal_topic_missing("journal"),
            {"event": "JournalTopicMissing", "topic": "journal"},
        ),
        (
            lambda: log_control_silent("control", "down"),
            {"event": "ControlSilent", "topic": "control", "error": "down"},
        ),
        (
            lambda: log_control_garbled("control[0]@1", "no JSON", 2),
            {"event": "ControlGarbled", "place": "control[0]@1", "reason": "no JSON", "count": 2},
        ),
    ],
)
def test_a_line_about_no_event_has_fields_too(
    write: Callable[[], None], fields: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    """Every line has the name of what it is about, and its values."""
    write()
    found = vars(caplog.records[0])
    assert fields == {name: found[f"linear_retry_{name}"] for name in fields}


class _Unreachable(logging.Handler):
    """A handler whose log server is down, and that does not keep that to itself."""

    asked = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.asked += 1
        raise ConnectionRefusedError("no log server")


class _Unspeakable:
    def __repr__(self) -> str:
        raise ValueError("no text")


@pytest.fixture
def log_server() -> Iterator[_Unreachable]:
    """Of the logger `linear_retry`, which is on."""
    handler, logger = _Unreachable(), logging.getLogger("linear_retry")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.setLevel(logging.NOTSET)
    logger.removeHandler(handler)


@pytest.mark.parametrize(
    "write", [lambda: log(_sample(Stopped)), lambda: log_listener_failure(_Unspeakable())]
)
def test_a_log_handler_that_raises(
    write: Callable[[], None], log_server: _Unreachable, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends nothing, and stderr says what it raised. The bug: `run` ended with it, during an
    outage that had taken the log server along."""
    write()
    assert 1 == log_server.asked
    assert "ConnectionRefusedError: no log server" in capsys.readouterr().err


class _Closed(io.StringIO):
    def write(self, _: str) -> int:
        raise RuntimeError("no stream")


@pytest.mark.parametrize("stderr", [None, _Closed()])
def test_a_log_handler_that_raises_where_stderr_is_lost_too(
    stderr: io.StringIO | None, log_server: _Unreachable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left to write to; the consumer continues all the same."""
    monkeypatch.setattr(sys, "stderr", stderr)
    log(_sample(Stopped))
    assert 1 == log_server.asked


def test_a_program_may_silence_it(
    log_server: _Unreachable,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`logging.raiseExceptions` is heeded, as by `logging`'s own handlers."""
    monkeypatch.setattr(logging, "raiseExceptions", False)
    log(_sample(Stopped))
    assert (1, "") == (log_server.asked, capsys.readouterr().err)


def test_nobody_writes_a_line_of_his_own(caplog: pytest.LogCaptureFixture) -> None:
    """A text that others choose (an error, an operator's name, a header) stays in its line, and
    changes no terminal."""
    forged = "ops\n2026-01-02 ERROR all is well\x1b[2J\u2028\u202e"
    expected = r"ops\n2026-01-02 ERROR all is well\x1b[2J\u2028\u202e"
    assert f"by {expected}: " in _line(_sample(CommandAnswered, by=forged), caplog)
    assert expected in _line(_sample(CircuitOpened, error=forged), caplog)
