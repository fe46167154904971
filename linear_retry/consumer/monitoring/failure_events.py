"""What is said of a message that waits, or is dead?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from linear_retry import events
from linear_retry.records.dead_letter import DeadLetter
from linear_retry.records.exception_text import brief
from linear_retry.retry.circuits import Held
from linear_retry.scope import Scope

_Failed = TypeVar("_Failed", events.CircuitOpened, events.ProbeFailed)


@dataclass(frozen=True, slots=True)
class Opening:
    """A circuit has been opened, or opened again, until `retry_at` (aware, UTC)."""

    scope: Scope
    held: Held
    delay_s: float
    retry_at: datetime
    was_closed: bool


def what(held: Held) -> str:
    """What it failed with last, in a line."""
    return "no error" if held.error is None else brief(held.error)


def opened(opening: Opening) -> events.CircuitOpened:
    return _failed(events.CircuitOpened, opening)


def probe_failed(opening: Opening) -> events.ProbeFailed:
    return _failed(events.ProbeFailed, opening)


def retried_now(scope: Scope, held: Held, early_s: float) -> events.RetriedNow:
    return events.RetriedNow(scope, *held.partition, held.offset, held.failures, early_s)


def limit_reached(opening: Opening, limit: int) -> events.LimitReached:
    held = opening.held
    return events.LimitReached(
        opening.scope,
        *held.partition,
        held.offset,
        error=what(held),
        failures=held.failures,
        limit=limit,
        delay_s=opening.delay_s,
        retry_at=opening.retry_at,
    )


def letter_failed(opening: Opening, topic: str, error: str) -> events.DeadLetterFailed:
    held = opening.held
    return events.DeadLetterFailed(
        opening.scope,
        *held.partition,
        held.offset,
        dead_letter_topic=topic,
        error=error,
        attempts=held.sends,
        delay_s=opening.delay_s,
        retry_at=opening.retry_at,
    )


def dead_lettered(held: Held, letter: DeadLetter, topic: str) -> events.DeadLettered:
    return events.DeadLettered(
        *held.partition,
        held.offset,
        dead_letter_topic=topic,
        retry_id=letter.retry_id,
        generation=letter.generation,
        reason=letter.reason,
        error=what(held),
        failures=held.failures,
        escaped_headers=letter.escaped_headers,
    )


def _failed(kind: type[_Failed], opening: Opening) -> _Failed:
    held = opening.held
    return kind(
        opening.scope,
        *held.partition,
        held.offset,
        error=what(held),
        failures=held.failures,
        delay_s=opening.delay_s,
        retry_at=opening.retry_at,
    )
