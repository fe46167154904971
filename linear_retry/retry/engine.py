"""Says what follows a failed attempt, as a step that a consumer or a micro-batch then takes."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Generic, TypeAlias, assert_never

from linear_retry import events
from linear_retry.errors import ExhaustedError, PermanentError
from linear_retry.log.lines import log_handler_failed
from linear_retry.records.commit_note import NotedFailures
from linear_retry.records.lineage import Line, lineage_of, message_id
from linear_retry.records.record import Record
from linear_retry.retry.case import (
    Blocked,
    Case,
    Failing,
    Failures,
    Held,
    Leaving,
    Limited,
    Route,
    T,
    ToCallback,
    ToDeadLetters,
    ToRetry,
    ToSource,
    leaving,
    left_line,
    not_sent,
    waiting,
)
from linear_retry.retry.circuits import Circuits
from linear_retry.retry.clock import Clock
from linear_retry.retry.current_attempt import AttemptInfo
from linear_retry.retry.decision import (
    GIVEN_UP,
    Block,
    Decision,
    Defer,
    Failure,
    Left,
    Permanent,
    Publish,
    Reason,
    Recover,
    RetrySettings,
    Skip,
    Stop,
    Wait,
    classify,
    decide,
)
from linear_retry.retry.failed_attempt import FailedAttempt, describe_failure
from linear_retry.scope import Scope


class ConsecutiveDeadLetters:
    """Counts dead letters in a row, over all partitions and the whole life of a consumer.

    Not per partition, and not reset by a rebalance: a bad deployment fails on all partitions, and
    still does after they are reassigned.
    """

    def __init__(self) -> None:
        self._count = 0
        self._is_lifted = False
        self._free: int | None = None

    def counted(self, in_doubt: int = 0) -> int:
        """The number that the limit is compared with: 0 while the limit is lifted.

        `in_doubt` more were sent and are not acknowledged.
        """
        if self._is_lifted and (self._free is None or in_doubt < self._free):
            return 0
        return self._count + in_doubt

    def note(self, reason: str) -> None:
        """Counts an acknowledged letter. One that an operator requested resets the count."""
        self._count = 0 if reason == GIVEN_UP else self._count + 1
        if self._free is not None and reason != GIVEN_UP:
            self._free -= 1

    def end(self) -> None:
        """Resets the count after a success; a lifted limit applies again."""
        self._count, self._is_lifted, self._free = 0, False, None

    def lift(self, letters: int | None) -> None:
        """Lifts the limit until the next success, or for `letters` letters at most."""
        self._is_lifted, self._free = True, letters


_RESEND_DELAYS_S = (1.0, 2.0, 5.0, 10.0)
_MOST_ORIGINS = 100
_BEFORE = "it failed before a restart or a rebalance"


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The broker has acknowledged the dead letter."""


@dataclass(frozen=True, slots=True)
class NotSent:
    """The dead letter is not in the topic, or that is not certain."""

    error: str


@dataclass(frozen=True, slots=True)
class Abandoned:
    """The wait ended without an answer: the partition was revoked, or the consumer stops."""


Answer: TypeAlias = Acknowledged | NotSent | Abandoned


@dataclass(frozen=True, slots=True)
class Hold(Generic[T]):
    """Wait: the circuit of `scope` holds the case for `delay_s`, infinite for one that is blocked.

    `pauses`: it was closed before, so everything in scope is to be paused. The events come after.
    """

    scope: Scope
    case: Case[T]
    delay_s: float
    pauses: bool
    events: tuple[events.Event, ...]


@dataclass(frozen=True, slots=True)
class Settle(Generic[T]):
    """Go on behind the message: it is handled, has left the line, or is skipped."""

    held: Held[T]
    outcome: events.CloseOutcome
    event: events.Event | None = None


Step: TypeAlias = Hold[T] | Leaving[T] | Settle[T]
"""What follows a failed attempt: a wait, a letter to send, or the next message."""


@dataclass(frozen=True, slots=True)
class Verdict(Generic[T]):
    """The decision about a failed attempt, which `held` counts."""

    held: Held[T]
    attempt: FailedAttempt
    decision: Decision


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """How to read what failed, and to name its place in errors and logs."""

    line: Line
    record: Callable[[Held[T]], Record]
    place: Callable[[Held[T]], str]


class Engine(Generic[T]):
    """Decides about failed attempts, and opens and closes the circuits.

    It answers with the step to take, and takes none itself.
    """

    def __init__(
        self,
        settings: RetrySettings,
        circuits: Circuits[T],
        consecutive: ConsecutiveDeadLetters,
        clock: Clock,
        reading: Reading[T],
    ) -> None:
        self._settings = settings
        self._circuits = circuits
        self._consecutive = consecutive
        self._clock = clock
        self._reading = reading
        self._origins: set[tuple[str, ...]] = set()

    def look(self) -> events.Event | None:
        """Puts strategies into force whose file has changed. Returns what has happened, once."""
        rules = self._settings.rules
        return None if rules is None else rules.look()

    def described(
        self, error: Exception, topic: str = "", *, is_permanent: bool = False
    ) -> FailedAttempt:
        """Classifies and describes the error, which nothing may refer to from then on.

        `is_permanent`: whatever `transient` says of it.
        """
        failure: Failure = Permanent()
        if not is_permanent:
            failure = classify(error, self._settings.is_transient, self._settings.rules, topic)
        keep = self._settings.policy.needs_exception(failure)
        return describe_failure(error, failure, keep=keep)

    def info(self, failures: Failures, record: Record) -> AttemptInfo:
        """Returns what a handler may know of an attempt after these failures. For any thread."""
        lineage = lineage_of(record, self._reading.line)
        now_s, now_ms = self._clock.now_s(), self._clock.utc_ms()
        left = Left.of(lineage, failures.first_ms if failures else now_ms, now_ms)
        decision = decide(
            self._settings.transient_again(failures.strategy),
            failures.count + 1,
            self._settings.policy,
            elapsed_s=now_s - failures.first_s if failures else 0.0,
            left=left,
        )
        next_delay_s = None
        if isinstance(decision, Wait):
            next_delay_s = decision.delay_s
        elif isinstance(decision, Publish) and decision.hop is not None:
            next_delay_s = max(decision.hop.retry_at_ms - now_ms, 0) / 1000
        before = lineage.failures + failures.count
        first_ms = left.first_failure_ms
        return AttemptInfo(
            before,
            datetime.fromtimestamp(first_ms / 1000, UTC) if before else None,
            next_delay_s,
            message_id(record),
        )

    def judge(self, before: Held[T], attempt: FailedAttempt) -> Verdict[T]:
        """Decides about a failed attempt, which `before` does not count yet."""
        policy, failure = self._settings.policy, attempt.failure
        now_s, now_ms = self._clock.now_s(), self._clock.utc_ms()
        label = policy.strategy_for(failure).label
        failures = before.failures.with_one_more(attempt, now_s, now_ms, label)
        held = replace(before, failures=failures)
        left = None
        if policy.carrier is not None:
            lineage = lineage_of(self._reading.record(held), self._reading.line)
            left = Left.of(lineage, failures.first_ms, now_ms)
        decision = decide(
            failure,
            failures.count,
            policy,
            self._settings.rng,
            elapsed_s=now_s - failures.first_s,
            consecutive=self._consecutive.counted(self._circuits.letters_in_doubt()),
            left=left,
            is_other_rule=self._is_other_rule(before.failures, label),
        )
        if isinstance(failure, Permanent) or isinstance(decision, Defer | Skip | Stop):
            self._log_stack(held, attempt)
        return Verdict(held, attempt, decision)

    def step(self, verdict: Verdict[T]) -> Step[T]:
        """Returns the step that a verdict leads to.

        Raises `ExhaustedError` or `PermanentError` if the user chose to stop.
        """
        held, decision = verdict.held, verdict.decision
        match decision:
            case Wait(delay_s):
                return self._hold(Failing(held), delay_s, events.ProbeFailed)[0]
            case Defer(delay_s, limit):
                hold, retry_at = self._hold(Limited(held), delay_s)
                reached = waiting(
                    events.LimitReached, hold.scope, held, delay_s, retry_at, limit=limit
                )
                return replace(hold, events=(*hold.events, reached))
            case Block():
                return self._block(held)
            case Publish(topic, reason, hop):
                return self._leaving(held, reason, ToRetry(hop) if hop else ToDeadLetters(topic))
            case Recover():
                error = verdict.attempt.exception
                if error is None:
                    raise AssertionError("no error for the callback: a bug; please report it")
                return self._leaving(held, "exhausted", ToCallback(error))
            case Skip():
                retry_id = lineage_of(self._reading.record(held), self._reading.line).retry_id
                place = (*held.partition, held.offset)
                skipped = events.Skipped(*place, retry_id, held.failures.text)
                return Settle(held, "skipped", skipped)
            case Stop(reason):
                raise self._ended(held, reason) from verdict.attempt.exception
            case _:
                assert_never(decision)

    def returned(self, held: Held[T]) -> Leaving[T]:
        """Lets it leave for where it came from first, on its way through the retry topics."""
        record, line = self._reading.record(held), self._reading.line
        lineage = lineage_of(record, line)
        route = ToSource(lineage.destination, lineage.hop)
        return leaving(held, record, "transient", line, route)

    def restored(self, held: Held[T], noted: NotedFailures) -> Hold[T]:
        """Holds a message for the failures that an owner before has noted, until its `retry_at`.

        At most for as long as it was to wait after its last failure: clocks differ. One that was
        blocked is so again, or attempted at once where nothing is blocked any more.
        """
        now_s, now_ms = self._clock.now_s(), self._clock.utc_ms()
        first_s = now_s - max(now_ms - noted.first_ms, 0) / 1000
        failures = Failures(noted.count, first_s, noted.first_ms, noted.last_ms, text=_BEFORE)
        left_ms = min(noted.retry_at_ms - now_ms, noted.retry_at_ms - noted.last_ms)
        # A circuit that waits for any first message waits for this one.
        closed = self.close(self.scope_of(held), "dropped")
        held = replace(held, failures=failures)
        if noted.is_blocked and self._settings.policy.blocks:
            hold = self._block(held)
        else:
            hold, _ = self._hold(Failing(held), max(left_ms, 0) / 1000)
        return hold if closed is None else replace(hold, events=(closed, *hold.events))

    def recovered(self, held: Held[T]) -> Settle[T]:
        """Returns the step after a success: a later failure belongs to a new outage."""
        self.succeeded()
        return Settle(held, "recovered")

    def succeeded(self) -> None:
        """Notes that a handler has returned, of a message that no circuit holds."""
        self._consecutive.end()

    def acknowledged(self, left: Leaving[T]) -> Settle[T]:
        """Counts an acknowledged letter; returns the step after it."""
        if not isinstance(left.route, ToSource):  # which says nothing about the dependency
            self._consecutive.note(left.letter.reason)
        event, outcome = left_line(left)
        return Settle(left.held, outcome, event)

    def not_sent(self, before: Leaving[T], error: str) -> Hold[T]:
        """Schedules another try at sending the letter: after 1, 2, 5, 10, 10 ... seconds."""
        case = replace(before, sends=before.sends + 1)
        delay_s = _RESEND_DELAYS_S[min(case.sends, len(_RESEND_DELAYS_S)) - 1]
        hold, retry_at = self._hold(case, delay_s)
        event = not_sent(hold.scope, case, error, delay_s, retry_at)
        return replace(hold, events=(*hold.events, event))

    def close(self, scope: Scope, outcome: events.CloseOutcome) -> events.CircuitClosed | None:
        """Closes a circuit, if it is open, and returns the event of it."""
        if self._circuits.get(scope) is None:
            return None
        return events.CircuitClosed(
            scope, outcome, self._circuits.close(scope, self._clock.now_s())
        )

    def scope_of(self, held: Held[T]) -> Scope:
        """The scope whose circuit is about this message."""
        return Scope.of(self._settings.scope, held.partition, held.key)

    # -- inside ----------------------------------------------------------------------------

    def _is_other_rule(self, before: Failures, label: str) -> bool:
        """Whether the failure before was by another strategy than this one.

        After a restart nobody knows which of several it was.
        """
        rules = self._settings.rules
        if rules is None or not before:
            return False
        return before.strategy != label if before.strategy else rules.are_several

    def _log_stack(self, held: Held[T], attempt: FailedAttempt) -> None:
        """Logs the traceback of the first of equal errors: a bug may fail on every message."""
        origin = attempt.origin
        if origin and origin not in self._origins and len(self._origins) < _MOST_ORIGINS:
            self._origins.add(origin)
            log_handler_failed(self._reading.place(held), attempt.text, attempt.error.stack or "")

    def _leaving(self, held: Held[T], reason: str, route: Route) -> Leaving[T]:
        return leaving(held, self._reading.record(held), reason, self._reading.line, route)

    def _hold(
        self, case: Case[T], delay_s: float, again: type[events.ProbeFailed] | None = None
    ) -> tuple[Hold[T], datetime]:
        """Opens the circuit with the case; `again` is the event where it was open before.

        Returns its `retry_at` too.
        """
        held, scope = case.held, self.scope_of(case.held)
        is_new = self._circuits.get(scope) is None
        now_s, now_ms = self._clock.now_s(), self._clock.utc_ms()
        retry_at = self._circuits.open(scope, case, now_s, delay_s, now_ms)
        happened: tuple[events.Event, ...] = ()
        if is_new:
            happened = (waiting(events.CircuitOpened, scope, held, delay_s, retry_at),)
        elif again is not None:
            happened = (waiting(again, scope, held, delay_s, retry_at),)
        return Hold(scope, case, delay_s, is_new, happened), retry_at

    def _block(self, held: Held[T]) -> Hold[T]:
        case, scope = Blocked(held), self.scope_of(held)
        is_new = self._circuits.get(scope) is None
        self._circuits.block(scope, case, self._clock.now_s(), self._clock.utc_ms())
        text, count = held.failures.text, held.failures.count
        blocked = events.KeyBlocked(scope, *held.partition, held.offset, text, count)
        return Hold(scope, case, math.inf, is_new, (blocked,))

    def _ended(self, held: Held[T], reason: Reason) -> ExhaustedError | PermanentError:
        kind = ExhaustedError if reason == "exhausted" else PermanentError
        topic, partition = held.partition
        failures = held.failures
        return kind(
            f"{self._reading.place(held)}: failure {failures.count} was {failures.text}, and "
            f'on_{reason}="stop"; nothing is committed past it',
            topic=topic,
            partition=partition,
            offset=held.offset,
            failures=failures.count,
        )
