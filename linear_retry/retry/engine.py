"""Carries out the decision about a failure, for a consumer or a micro-batch."""

from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeAlias, assert_never

from linear_retry import events
from linear_retry.errors import ExhaustedError, PermanentError
from linear_retry.log.lines import log_handler_failed
from linear_retry.records.dead_letter import DeadLetter
from linear_retry.records.lineage import Lineage
from linear_retry.retry.circuits import Circuits
from linear_retry.retry.clock import Clock
from linear_retry.retry.decision import (
    GIVEN_UP,
    Defer,
    Publish,
    Reason,
    Recover,
    Skip,
    Stop,
    Wait,
    classify,
    decide,
)
from linear_retry.retry.failed_attempt import FailedAttempt, describe_failure
from linear_retry.retry.held import (
    CircuitOpening,
    Held,
    T,
    left_line,
    letter_failed,
    skipped,
    waiting,
)
from linear_retry.retry.policy import Left, Permanent, RetrySettings
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


class Target(Protocol[T]):
    """Where decisions take effect: a consumer's partitions, or the stream of a micro-batch."""

    def pause(self, scope: Scope) -> None:
        """Pauses everything in scope, at the first unhandled offset."""

    def resume(self, scope: Scope) -> None:
        """Resumes everything in scope, after what is done."""

    def done(self, held: Held[T]) -> None:
        """Stores the offset: the message is handled, dead-lettered or skipped."""

    def lineage(self, held: Held[T]) -> Lineage:
        """Returns the message's identity, and its progress off the line."""

    def letter(self, held: Held[T], reason: str) -> DeadLetter:
        """Builds the dead letter for what is held, as of now."""

    def publish(self, held: Held[T], reason: Reason) -> None:
        """Starts to send the letter to its `destination`; done once that is acknowledged."""

    def recover(self, held: Held[T]) -> None:
        """Starts to hand it over to the user's function; done once that returns."""

    def take_apart(self, held: Held[T]) -> None:
        """Attempts each message of the batch alone next, from the first on."""

    def place(self, held: Held[T]) -> str:
        """The message's place, for an error text."""


class Engine(Generic[T]):
    """Opens and closes circuits, and emits the events: the only place that does, for any target."""

    def __init__(
        self,
        settings: RetrySettings,
        circuits: Circuits[T],
        consecutive: ConsecutiveDeadLetters,
        emit: events.Listener,
        clock: Clock,
        target: Target[T],
    ) -> None:
        self._settings = settings
        self._circuits = circuits
        self._consecutive = consecutive
        self._emit = emit
        self._clock = clock
        self._target = target
        self._origins: set[tuple[str, ...]] = set()

    def failed(self, before: Held[T], error: Exception) -> CircuitOpening[T] | None:
        """Handles a failed attempt, which `before` does not count yet.

        Returns the circuit that now waits; None if the message is finished, or its dead letter is
        being sent. Raises `ExhaustedError` or `PermanentError` if the user chose to stop.
        """
        return self.apply(before, self.described(error))

    def refused(self, before: Held[T], error: Exception) -> CircuitOpening[T] | None:
        """Handles a message that has failed permanently, whatever `transient` says of its error.

        Returns and raises what `failed` does.
        """
        return self.apply(before, self.described(error, is_permanent=True))

    def described(self, error: Exception, *, is_permanent: bool = False) -> FailedAttempt:
        """Classifies and describes the error, which nothing may refer to from then on.

        `is_permanent`: whatever `transient` says of it.
        """
        failure = Permanent() if is_permanent else classify(error, self._settings.is_transient)
        keep = self._settings.policy.needs_exception(failure)
        return describe_failure(error, failure, keep=keep)

    def succeeded(self) -> None:
        """Notes that a handler has returned: a later failure belongs to a new outage."""
        self._consecutive.end()

    def finish(self, held: Held[T], outcome: events.CloseOutcome, *also: events.Event) -> None:
        """Stores the offset, closes the circuit, resumes the scope, and emits the event last.

        A listener may end the program's loop with a `SystemExit`: the event must be true by then,
        or another loop would send the letter again.
        """
        if outcome == "recovered":
            self.succeeded()
        self._target.done(held)
        scope = self._scope(held)
        if self._circuits.get(scope) is not None:
            open_s = self._circuits.close(scope, self._clock.now_s())
            self._target.resume(scope)
            also = (*also, events.CircuitClosed(scope, outcome, open_s))
        for event in also:
            self._emit(event)

    def drop(self, scope: Scope) -> None:
        """Closes a circuit whose scope has no partition left in this consumer."""
        if self._circuits.get(scope) is not None:
            open_s = self._circuits.close(scope, self._clock.now_s())
            self._emit(events.CircuitClosed(scope, "dropped", open_s))

    def acknowledged(self, held: Held[T], letter: DeadLetter, *, finishes: bool) -> None:
        """Handles an acknowledged letter: counted and emitted; stored only if it `finishes`."""
        if not held.is_returned:  # which says nothing about the dependency
            self._consecutive.note(letter.reason)
        event, outcome = left_line(held, letter)
        if finishes:
            self.finish(held, outcome, event)
        else:
            self._emit(event)

    def not_sent(self, before: Held[T], error: str) -> CircuitOpening[T]:
        """Schedules another try at sending the letter: after 1, 2, 5, 10, 10 ... seconds."""
        held = replace(before, sends=before.sends + 1)
        delay_s = _RESEND_DELAYS_S[min(held.sends, len(_RESEND_DELAYS_S)) - 1]
        opening = self._open(held, delay_s, self._clock.utc_ms())
        self._emit(letter_failed(opening, error))
        return opening

    def apply(self, before: Held[T], attempt: FailedAttempt) -> CircuitOpening[T] | None:
        """Handles a failed attempt that is described already. Returns and raises as `failed`."""
        policy, rng, failure = self._settings.policy, self._settings.rng, attempt.failure
        consecutive = self._consecutive.counted(self._circuits.letters_in_doubt())
        now_s, now_ms = self._clock.now_s(), self._clock.utc_ms()
        held = before.failed(attempt, now_s, now_ms, policy.strategy_for(failure).label)
        left = None
        if policy.carrier is not None:
            left = Left.of(self._target.lineage(held), held.first_failure_ms, now_ms)
        decision = decide(
            failure,
            held.failures,
            policy,
            rng,
            elapsed_s=now_s - held.first_failure_s,
            consecutive=consecutive,
            left=left,
        )
        if isinstance(failure, Permanent) or isinstance(decision, Defer | Skip | Stop):
            self._log_stack(held, attempt)
        if held.others and not isinstance(decision, Wait):
            self._take_apart(held)
            return None
        match decision:
            case Wait(delay_s):
                return self._open(held, delay_s, now_ms, is_failed_probe=True)
            case Defer(delay_s, limit):
                opening = self._open(replace(held, at_limit=True), delay_s, now_ms)
                self._emit(waiting(events.LimitReached, opening, limit=limit))
                return opening
            case Publish(topic, reason, hop):
                self._target.publish(replace(held, destination=topic, hop=hop), reason)
            case Recover():
                self._target.recover(replace(held, exception=attempt.exception))
            case Skip():
                letter = self._target.letter(held, "permanent")
                self.finish(held, "skipped", skipped(held, letter.retry_id))
            case Stop(reason):
                raise self._ended(held, reason) from attempt.exception
            case _:
                assert_never(decision)
        return None

    # -- inside ----------------------------------------------------------------------------

    def _log_stack(self, held: Held[T], attempt: FailedAttempt) -> None:
        """Logs the traceback of the first of equal errors: a bug may fail on every message."""
        origin = attempt.origin
        if origin and origin not in self._origins and len(self._origins) < _MOST_ORIGINS:
            self._origins.add(origin)
            log_handler_failed(self._target.place(held), attempt.text, attempt.error.stack or "")

    def _take_apart(self, held: Held[T]) -> None:
        """Finds out which of them fail: no message is given up for another's failure."""
        self._target.take_apart(held)
        scope = self._scope(held)
        if self._circuits.get(scope) is not None:
            self._circuits.hold(scope, replace(held, others=()))
        place, count = (*held.partition, held.offset), 1 + len(held.others)
        self._emit(events.BatchTakenApart(*place, count, held.error_text, held.failures))

    def _open(
        self, held: Held[T], delay_s: float, now_ms: int, *, is_failed_probe: bool = False
    ) -> CircuitOpening[T]:
        """Opens the circuit for this long, with the message held.

        State first, then pause, then seeks: if a call fails, the state is already recorded.
        """
        scope = self._scope(held)
        was_closed = self._circuits.get(scope) is None
        circuit = self._circuits.open(scope, held, self._clock.now_s(), delay_s, now_ms)
        opening = CircuitOpening(scope, held, delay_s, circuit.retry_at)
        if was_closed:
            self._target.pause(scope)
            self._emit(waiting(events.CircuitOpened, opening))
        elif is_failed_probe:
            self._emit(waiting(events.ProbeFailed, opening))
        return opening

    def _ended(self, held: Held[T], reason: Reason) -> ExhaustedError | PermanentError:
        kind = ExhaustedError if reason == "exhausted" else PermanentError
        topic, partition = held.partition
        return kind(
            f"{self._target.place(held)}: failure {held.failures} was {held.error_text}, and "
            f'on_{reason}="stop"; nothing is committed past it',
            topic=topic,
            partition=partition,
            offset=held.offset,
            failures=held.failures,
        )

    def _scope(self, held: Held[T]) -> Scope:
        return Scope.of(self._settings.scope, held.partition)
