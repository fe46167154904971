"""A message that failed, the record of its failures, and the events about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from linear_retry import events
from linear_retry.records.dead_letter import DeadLetter, FailureInfo, to_dead_letter
from linear_retry.records.lineage import Hop, Line, lineage_of
from linear_retry.records.record import Record
from linear_retry.records.text import ErrorText
from linear_retry.retry.failed_attempt import FailedAttempt
from linear_retry.scope import Partition, Scope

T = TypeVar("T")

RECOVERY = "recovery callback"
"""The destination of messages that are handed over; not a valid topic name."""


@dataclass(frozen=True, slots=True)
class Held(Generic[T]):
    """What a circuit holds: a consumer's message, or a stream's micro-batch.

    `epoch` is that of the assignment it was read in; None for a micro-batch, which is never
    revoked. `others` are the messages after it that failed with it, as one batch of `run_batches`.
    `first_failure_s`, from which `max_elapsed` counts, is on the clock of waits.
    `error_text` is the last error in one line, `strategy` the label of the strategy for its last
    failure; `exception` is for the callback of `Recovery` alone. `letter`, for the topic
    `destination`, is set after the last attempt: only the sending is tried again; `hop` is the wait
    that it leaves the line for, None for good. `at_limit`: it is held only because of the limit of
    where it would be sent.
    """

    message: T
    partition: Partition
    offset: int
    epoch: int | None
    failures: int = 0
    first_failure_s: float = 0.0
    first_failure_ms: int = 0
    last_failure_ms: int = 0
    error: ErrorText | None = None
    error_text: str = "no error"
    exception: Exception | None = None
    strategy: str = ""
    letter: DeadLetter | None = None
    destination: str = ""
    hop: Hop | None = None
    sends: int = 0
    at_limit: bool = False
    others: tuple[T, ...] = ()

    @property
    def is_returned(self) -> bool:
        """Whether it is sent back to its original topic: its hop is the one that it came from."""
        return self.hop is not None and self.hop.topic != self.destination

    def failed(self, attempt: FailedAttempt, at_s: float, at_ms: int, strategy: str) -> Held[T]:
        """Returns the same message with one more failure: at `at_s` on the clock of waits."""
        return replace(
            self,
            failures=self.failures + 1,
            first_failure_s=self.first_failure_s if self.failures else at_s,
            first_failure_ms=self.first_failure_ms if self.failures else at_ms,
            last_failure_ms=at_ms,
            error=attempt.error,
            error_text=attempt.text,
            strategy=strategy,
            at_limit=False,
        )


def dead_letter(record: Record, held: Held[Any], reason: str, line: Line) -> DeadLetter:
    """Builds the letter for `record`, which leaves the line, by itself or in its batch."""
    lineage = lineage_of(record, line)
    hop = held.hop or lineage.hop
    failure = FailureInfo(
        group_id=line.group_id,
        reason=reason,
        failures=held.failures,
        first_failure_ms=held.first_failure_ms,
        last_failure_ms=held.last_failure_ms,
        # Off the line a message goes by the strategy of its hops, to the last of them.
        strategy=held.strategy if hop is None else hop.strategy,
        error=held.error,
        hop=held.hop,
    )
    return to_dead_letter(record, failure, lineage)


@dataclass(frozen=True, slots=True)
class CircuitOpening(Generic[T]):
    """A circuit that was opened or reopened, until `retry_at` (aware, UTC)."""

    scope: Scope
    held: Held[T]
    delay_s: float
    retry_at: datetime


def waiting(kind: Callable[..., T], opening: CircuitOpening[Any], **rest: int) -> T:
    """Builds an event of this kind, about the attempt that the circuit waits for."""
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


def letter_failed(opening: CircuitOpening[Any], error: str) -> events.DeadLetterFailed:
    held = opening.held
    return events.DeadLetterFailed(
        opening.scope,
        *held.partition,
        held.offset,
        dead_letter_topic=held.destination,
        error=error,
        attempts=held.sends,
        delay_s=opening.delay_s,
        retry_at=opening.retry_at,
    )


def _dead_lettered(held: Held[Any], letter: DeadLetter) -> events.DeadLettered:
    return events.DeadLettered(
        *held.partition,
        held.offset,
        dead_letter_topic=held.destination,
        retry_id=letter.retry_id,
        generation=letter.generation,
        reason=letter.reason,
        error=held.error_text,
        failures=letter.failures,
        escaped_headers=letter.escaped_headers,
    )


def left_line(held: Held[Any], letter: DeadLetter) -> tuple[events.Event, events.CloseOutcome]:
    """The event of the letter's acknowledgement, and the outcome that it has for its circuit."""
    if held.destination == RECOVERY:
        return _handed_over(held, letter), "handed-over"
    if held.is_returned:
        return _returned(held, letter), "returned"
    if held.hop is not None:
        return _sent_to_retry(held, letter, held.hop), "sent-to-retry"
    return _dead_lettered(held, letter), "dead-lettered"


def _returned(held: Held[Any], letter: DeadLetter) -> events.ReturnedToSource:
    return events.ReturnedToSource(
        *held.partition,
        held.offset,
        source=held.destination,
        retry_id=letter.retry_id,
        generation=letter.generation,
        step=letter.step or 0,
    )


def _handed_over(held: Held[Any], letter: DeadLetter) -> events.HandedOver:
    return events.HandedOver(
        *held.partition,
        held.offset,
        retry_id=letter.retry_id,
        error=held.error_text,
        failures=letter.failures,
    )


def _sent_to_retry(held: Held[Any], letter: DeadLetter, hop: Hop) -> events.SentToRetry:
    return events.SentToRetry(
        *held.partition,
        held.offset,
        retry_topic=hop.topic,
        retry_id=letter.retry_id,
        generation=letter.generation,
        step=hop.step,
        retry_at=datetime.fromtimestamp(hop.retry_at_ms / 1000, UTC),
        error=held.error_text,
        failures=letter.failures,
        short_s=hop.short_ms / 1000,
    )


def skipped(held: Held[Any], retry_id: str) -> events.Skipped:
    return events.Skipped(*held.partition, held.offset, retry_id, held.error_text)
