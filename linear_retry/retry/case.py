"""A failed message: its failures, where it goes from there, and the events that tell of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Generic, TypeAlias, TypeVar, assert_never

from linear_retry import events
from linear_retry.records.dead_letter import DeadLetter, FailureInfo, to_dead_letter
from linear_retry.records.lineage import Hop, Line, lineage_of
from linear_retry.records.record import Record
from linear_retry.records.text import ErrorText
from linear_retry.retry.failed_attempt import FailedAttempt
from linear_retry.scope import Partition, Scope

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Failures:
    """The failures of one message so far: how many, when, and the last of them.

    `first_s`, from which `max_elapsed` counts, is on the clock of waits; the others are UTC. `text`
    is the last error in one line, `strategy` the label of the strategy for it.
    """

    count: int = 0
    first_s: float = 0.0
    first_ms: int = 0
    last_ms: int = 0
    error: ErrorText | None = None
    text: str = "no error"
    strategy: str = ""

    def __bool__(self) -> bool:
        return self.count > 0

    def with_one_more(
        self, attempt: FailedAttempt, at_s: float, at_ms: int, strategy: str
    ) -> Failures:
        """Returns them with this one, at `at_s` on the clock of waits."""
        return Failures(
            count=self.count + 1,
            first_s=self.first_s if self else at_s,
            first_ms=self.first_ms if self else at_ms,
            last_ms=at_ms,
            error=attempt.error,
            text=attempt.text,
            strategy=strategy,
        )


@dataclass(frozen=True, slots=True)
class Held(Generic[T]):
    """A consumer's message, or a stream's micro-batch, and its failures: none for a first probe.

    `epoch` is that of the assignment it was read in; None for a micro-batch, which is never
    revoked. `others` are the messages after it that failed with it, as one batch of `run_batches`.
    `key` is that of its scope, where each key has its own.
    """

    message: T
    partition: Partition
    offset: int
    epoch: int | None
    failures: Failures = field(default_factory=Failures)
    others: tuple[T, ...] = ()
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Failing(Generic[T]):
    """It is attempted again after its wait."""

    held: Held[T]


@dataclass(frozen=True, slots=True)
class Limited(Generic[T]):
    """It is attempted again, as the limit of messages in a row that leave the line is reached."""

    held: Held[T]


@dataclass(frozen=True, slots=True)
class Blocked(Generic[T]):
    """It is attempted again only if an operator says so."""

    held: Held[T]


@dataclass(frozen=True, slots=True)
class ToDeadLetters:
    """For good, to the dead-letter topic."""

    topic: str


@dataclass(frozen=True, slots=True)
class ToRetry:
    """For a wait: to a retry topic, or to that of the scheduler."""

    hop: Hop

    @property
    def topic(self) -> str:
        return self.hop.topic


@dataclass(frozen=True, slots=True)
class ToSource:
    """Back to the topic that it came from, after the wait of `hop`."""

    topic: str
    hop: Hop | None


@dataclass(frozen=True, slots=True)
class ToCallback:
    """To the user's function (`Recovery`), with its last error."""

    error: Exception


Route: TypeAlias = ToDeadLetters | ToRetry | ToSource | ToCallback


@dataclass(frozen=True, slots=True)
class Leaving(Generic[T]):
    """Its attempts are over, and `letter` is on its way; `sends` attempts to send that failed."""

    held: Held[T]
    letter: DeadLetter
    route: Route
    sends: int = 0


Case: TypeAlias = Failing[T] | Limited[T] | Blocked[T] | Leaving[T]
"""A message that failed, in what a circuit holds it for."""


def leaving(held: Held[T], record: Record, reason: str, line: Line, route: Route) -> Leaving[T]:
    """Lets `record` leave the line, with the failures of what it was held in."""
    lineage, failures = lineage_of(record, line), held.failures
    hop = route.hop if isinstance(route, ToRetry | ToSource) else None
    strategy = hop or lineage.hop
    failure = FailureInfo(
        group_id=line.group_id,
        reason=reason,
        failures=failures.count,
        first_failure_ms=failures.first_ms,
        last_failure_ms=failures.last_ms,
        # Off the line a message goes by the strategy of its hops, to the last of them.
        strategy=failures.strategy if strategy is None else strategy.strategy,
        error=failures.error,
        hop=hop,
    )
    return Leaving(held, to_dead_letter(record, failure, lineage), route)


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
