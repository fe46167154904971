"""The events about a failed message."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar, assert_never

from linear_retry import events
from linear_retry.retry.case import (
    Held,
    Leaving,
    Route,
    ToCallback,
    ToDeadLetters,
    ToRetry,
    ToSource,
)
from linear_retry.scope import Scope

_E = TypeVar("_E")

RECOVERY = "recovery callback"
"""What events say where others name a topic."""


def waiting(
    kind: Callable[..., _E],
    scope: Scope,
    held: Held[Any],
    delay_s: float,
    retry_at: datetime,
    **rest: int,
) -> _E:
    """Builds an event of this kind, about the attempt that the circuit waits for."""
    return kind(
        scope,
        *held.partition,
        held.offset,
        error=held.failures.text,
        failures=held.failures.count,
        delay_s=delay_s,
        retry_at=retry_at,
        **rest,
    )


def not_sent(
    scope: Scope, leaving: Leaving[Any], error: str, delay_s: float, retry_at: datetime
) -> events.DeadLetterFailed:
    """Builds the event of a letter that is sent again at `retry_at`."""
    return events.DeadLetterFailed(
        scope,
        *leaving.held.partition,
        leaving.held.offset,
        dead_letter_topic=destination_of(leaving.route),
        error=error,
        attempts=leaving.sends,
        delay_s=delay_s,
        retry_at=retry_at,
    )


def destination_of(route: Route) -> str:
    """Returns the topic that it leads to, or what events say in place of one."""
    return RECOVERY if isinstance(route, ToCallback) else route.topic


def left_line(leaving: Leaving[Any]) -> tuple[events.Event, events.CloseOutcome]:
    """The event of the letter's acknowledgement, and the outcome that it has for its circuit."""
    held, letter, route = leaving.held, leaving.letter, leaving.route
    place = (*held.partition, held.offset)
    match route:
        case ToCallback():
            handed_over = events.HandedOver(
                *place,
                retry_id=letter.retry_id,
                error=held.failures.text,
                failures=letter.failures,
            )
            return handed_over, "handed-over"
        case ToSource(topic=source):
            returned = events.ReturnedToSource(
                *place,
                source=source,
                retry_id=letter.retry_id,
                generation=letter.generation,
                step=letter.step or 0,
            )
            return returned, "returned"
        case ToRetry(hop=hop):
            sent_to_retry = events.SentToRetry(
                *place,
                retry_topic=hop.topic,
                retry_id=letter.retry_id,
                generation=letter.generation,
                step=hop.step,
                retry_at=datetime.fromtimestamp(hop.retry_at_ms / 1000, UTC),
                error=held.failures.text,
                failures=letter.failures,
                short_s=hop.short_ms / 1000,
            )
            return sent_to_retry, "sent-to-retry"
        case ToDeadLetters(topic=topic):
            dead_lettered = events.DeadLettered(
                *place,
                dead_letter_topic=topic,
                retry_id=letter.retry_id,
                generation=letter.generation,
                reason=letter.reason,
                error=held.failures.text,
                failures=letter.failures,
                escaped_headers=letter.escaped_headers,
            )
            return dead_lettered, "dead-lettered"
        case _:
            assert_never(route)
