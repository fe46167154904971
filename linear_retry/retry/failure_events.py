"""Events about a message that waits, or has been given up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from linear_retry import events
from linear_retry.records.dead_letter import DeadLetter
from linear_retry.retry.held import Held
from linear_retry.scope import Scope

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CircuitOpening(Generic[T]):
    """A circuit has been opened, or opened again, until `retry_at` (aware, UTC)."""

    scope: Scope
    held: Held[T]
    delay_s: float
    retry_at: datetime


def opened(opening: CircuitOpening[Any]) -> events.CircuitOpened:
    return _waiting(events.CircuitOpened, opening)


def probe_failed(opening: CircuitOpening[Any]) -> events.ProbeFailed:
    return _waiting(events.ProbeFailed, opening)


def limit_reached(opening: CircuitOpening[Any], limit: int) -> events.LimitReached:
    return _waiting(events.LimitReached, opening, limit=limit)


def letter_failed(opening: CircuitOpening[Any], topic: str, error: str) -> events.DeadLetterFailed:
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


def dead_lettered(held: Held[Any], letter: DeadLetter, topic: str) -> events.DeadLettered:
    return events.DeadLettered(
        *held.partition,
        held.offset,
        dead_letter_topic=topic,
        retry_id=letter.retry_id,
        generation=letter.generation,
        reason=letter.reason,
        error=held.error_text,
        failures=held.failures,
        escaped_headers=letter.escaped_headers,
    )


def skipped(held: Held[Any], retry_id: str) -> events.Skipped:
    return events.Skipped(*held.partition, held.offset, retry_id, held.error_text)


def _waiting(kind: Callable[..., T], opening: CircuitOpening[Any], **rest: int) -> T:
    held = opening.held
    return kind(
        opening.scope,
        *held.partition,
        held.offset,
        error=held.error_text,
        failures=held.failures,
        delay_s=opening.delay_s,
        retry_at=opening.retry_at,
        **rest,
    )
