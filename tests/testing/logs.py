"""Logs of a group, written by hand: one member, one circuit for all it has."""

from collections.abc import Sequence
from datetime import UTC, datetime

from linear_retry import events
from linear_retry.scope import Partition, Scope
from linear_retry.testing import (
    Appended,
    AttemptFinished,
    AttemptStarted,
    Committed,
    Entry,
    EventEmitted,
    Guarantee,
    Place,
)
from linear_retry.testing import all_guarantees as all_of
from linear_retry.testing.event_log import AttemptOutcome

P0, P1 = ("orders", 0), ("orders", 1)
VISIBLE = {P0: range(3), P1: range(2)}
STRATEGY_LENGTH = 2
_ALL = Scope()
_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def guarantees(limit: int | None = None) -> list[Guarantee]:
    """All, for these logs."""
    return all_of(VISIBLE, strategy_length=STRATEGY_LENGTH, limit=limit)


def appended(at_s: float = 0.0) -> list[Entry]:
    """All that is visible."""
    return [
        Appended(at_s, "", Place(*partition, offset))
        for partition, offsets in VISIBLE.items()
        for offset in offsets
    ]


def emitted(at_s: float, event: events.Event, member: str = "one") -> EventEmitted:
    return EventEmitted(at_s, member, event)


def assigned(at_s: float, *partitions: Partition, member: str = "one") -> EventEmitted:
    return emitted(at_s, events.Assigned(partitions or (P0, P1)), member)


def revoked(at_s: float, *partitions: Partition, member: str = "one") -> EventEmitted:
    return emitted(at_s, events.Revoked(partitions or (P0, P1)), member)


def stopped(at_s: float, member: str = "one") -> EventEmitted:
    return emitted(at_s, events.Stopped(left_group=True), member)


def begun(
    at_s: float, offset: int, partition: Partition = P0, member: str = "one"
) -> AttemptStarted:
    return AttemptStarted(at_s, member, Place(*partition, offset))


def attempt(
    at_s: float,
    offset: int,
    partition: Partition = P0,
    outcome: AttemptOutcome = "done",
    member: str = "one",
) -> list[Entry]:
    """That takes no time."""
    place = Place(*partition, offset)
    return [AttemptStarted(at_s, member, place), AttemptFinished(at_s, member, place, outcome)]


def opened(
    at_s: float, offset: int, delay_s: float = 1.0, failures: int = 1, scope: Scope = _ALL
) -> EventEmitted:
    """By the first failure of a message of the first partition."""
    return emitted(
        at_s,
        events.CircuitOpened(scope, *P0, offset, "down", failures, delay_s, _NOW),
    )


def stays_open(
    at_s: float, offset: int, failures: int, delay_s: float = 1.0, scope: Scope = _ALL
) -> EventEmitted:
    """By another failure."""
    return emitted(at_s, events.ProbeFailed(scope, *P0, offset, "down", failures, delay_s, _NOW))


def blocked(at_s: float, offset: int, scope: Scope, failures: int = 1) -> EventEmitted:
    """Until an operator retries it."""
    return emitted(at_s, events.KeyBlocked(scope, *P0, offset, "bad", failures))


def retried(at_s: float, offset: int, scope: Scope) -> EventEmitted:
    """By an operator."""
    return emitted(at_s, events.RetriedNow(scope, *P0, offset, 1, 0.0))


def unsent(at_s: float, offset: int, delay_s: float = 1.0, scope: Scope = _ALL) -> EventEmitted:
    """Its letter could not be sent."""
    return emitted(
        at_s, events.DeadLetterFailed(scope, *P0, offset, "dlq", "down", 1, delay_s, _NOW)
    )


def closed(at_s: float, scope: Scope = _ALL) -> EventEmitted:
    return emitted(at_s, events.CircuitClosed(scope, "recovered", 1.0))


def letter(
    at_s: float, offset: int, failures: int, partition: Partition = P0, reason: str = "exhausted"
) -> EventEmitted:
    """Acknowledged."""
    retry_id = f"group/{offset}"
    return emitted(
        at_s,
        events.DeadLettered(*partition, offset, "dlq", retry_id, 1, reason, "down", failures, ()),
    )


def committed(at_s: float, first: int, second: int, member: str = "") -> Committed:
    """Next offsets of both partitions."""
    return Committed(at_s, member, {P0: first, P1: second})


def life(*middle: Sequence[Entry] | Entry, begin_s: float = 0.0, end_s: float = 5.0) -> list[Entry]:
    """All is there, assigned; then `middle`; then all is committed, and the member goes."""
    inner = [
        entry for part in middle for entry in ([part] if not isinstance(part, Sequence) else part)
    ]
    return [
        *appended(begin_s),
        assigned(begin_s),
        *inner,
        committed(end_s, 3, 2),
        revoked(end_s),
        stopped(end_s),
    ]
