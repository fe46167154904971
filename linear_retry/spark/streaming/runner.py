"""Attempts a micro-batch until it is done or given up, like a consumer's message."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import assert_never

from linear_retry import events
from linear_retry.consumer.letters.publisher import DeadLetterPublisher, Steps, Stop
from linear_retry.consumer.runners.run_handler import Results
from linear_retry.errors import BrokerError, ConfigurationError, UnknownTopicError, UsageError
from linear_retry.events import Listener
from linear_retry.journal.journal import Journal
from linear_retry.kafka import KafkaException
from linear_retry.records.lineage import Line
from linear_retry.records.record import Record
from linear_retry.retry.callables import UndoneError
from linear_retry.retry.case import Failures, Held, Leaving, ToDeadLetters, leaving
from linear_retry.retry.circuits import Circuits, CircuitView
from linear_retry.retry.clock import Clock
from linear_retry.retry.current_attempt import answer_by
from linear_retry.retry.decision import Permanent, RetrySettings
from linear_retry.retry.engine import (
    Abandoned,
    Acknowledged,
    Answer,
    ConsecutiveDeadLetters,
    Engine,
    Hold,
    NotSent,
    Reading,
    Settle,
)
from linear_retry.retry.failed_attempt import FailedAttempt, release
from linear_retry.scope import Scope
from linear_retry.spark.streaming.batch import BadRows, SparkBatch

_SCOPE = Scope()
_MAX_HALVINGS = 100
_START_WITHIN_S = 10.0


class MicroBatchRunner:
    """Attempts the micro-batches of one stream, in their order, one at a time.

    Owns their circuit, which holds the batch, even while the letters of its rows are sent; and is
    the `Stop` that ends the wait for a letter.
    """

    interrupted = False

    def __init__(
        self,
        settings: RetrySettings,
        circuits: Circuits[SparkBatch],
        emit: Listener,
        clock: Clock,
        group_id: str,
        publisher: Callable[[Stop], DeadLetterPublisher] | None,
        journals: Sequence[Journal] = (),
    ) -> None:
        """`publisher` makes a stream's publisher; None only if no choice needs dead letters."""
        self.needs_dead_letters = settings.policy.needs_dead_letters
        self._circuits = circuits
        self._emit = emit
        self._clock = clock
        self._line = Line(group_id)
        self._publisher = None if publisher is None else publisher(self)
        self._journals = journals
        self._engine: Engine[SparkBatch] = Engine(
            settings,
            circuits,
            ConsecutiveDeadLetters(),
            clock,
            Reading(self._line, _record, _place),
        )
        self._results = Results()
        self._in_hand: SparkBatch | None = None
        self._run: str | None = None
        self._has_begun = False

    def handle(self, batch: SparkBatch) -> None:
        """Returns once it is done, dead-lettered or skipped; only then may the stream continue.

        Raises `ExhaustedError` and `PermanentError` if `"stop"` was chosen, `UsageError` if
        `transient` raises or the handler returns work that would not run, and what `SparkBatch.end`
        raises. The batch is not done then, and is delivered again.
        """
        is_first = self._begin(batch)
        is_over = False
        try:
            held = Held(batch, batch.place, batch.number, epoch=None)
            if is_first:
                held = self._recalled(held)
            self._handle(held)
            is_over = True
        finally:
            self._in_hand = None
            if not is_over:
                self._leave(batch)

    @property
    def asked(self) -> bool:
        """Whether the stream is being stopped."""
        return self._in_hand is not None and self._in_hand.is_stopping()

    @property
    def circuit(self) -> CircuitView:
        """A snapshot of the circuit. Thread-safe."""
        return self._circuits.views[_SCOPE]

    def close(self) -> None:
        """Emits the last event, if there was any before."""
        self._run = None
        if self._publisher is not None:
            self._publisher.close()
        if self._has_begun:
            self._has_begun = False
            self._emit(events.Stopped(left_group=True))

    # -- inside ------------------------------------------------------------------------------

    def _handle(self, held: Held[SparkBatch]) -> None:
        """Handles the batch, or else its halves, the first one to its end before the second."""
        parts, halvings = [held.message], 0
        while parts:
            part = replace(held, message=parts.pop())
            halves = self._finished(part, may_halve=halvings < _MAX_HALVINGS)
            parts += reversed(halves)
            halvings += bool(halves)

    def _finished(self, held: Held[SparkBatch], *, may_halve: bool) -> Sequence[SparkBatch]:
        """Returns the halves to handle in its place, if any; else it is done or given up."""
        while True:
            outcome = self._attempt(held, may_halve=may_halve)
            if not isinstance(outcome, Hold):
                return outcome
            held = outcome.case.held
            self._wait(held.message, outcome.delay_s)

    def _attempt(
        self, held: Held[SparkBatch], *, may_halve: bool
    ) -> Hold[SparkBatch] | Sequence[SparkBatch]:
        """Attempts the batch once. Returns what to wait for, or as `_finished`."""
        batch = held.message
        error = self._error_of(held)
        if error is None:
            self._settle(self._engine.recovered(held))
            return ()
        if batch.is_stopping():
            batch.end()  # a stop may make the handler fail with any error
        may_halve = may_halve and not isinstance(error, BadRows)
        if (event := self._engine.look()) is not None:
            self._emit(event)
        attempt = self._described(held, error)
        del error  # sending the letters takes its time, and may wait
        if may_halve and (halves := self._halves(held, attempt)):
            return halves
        # First: a stream that is stopped because of the event has counted the failure.
        batch.note(held.failures.count + 1, held.failures.first_ms or self._clock.utc_ms())
        step = self._engine.step(self._engine.judge(held, attempt))
        match step:
            case Hold():
                self._emit_all(step.events)
                return step
            case Settle():
                self._settle(step)
            case Leaving(route=ToDeadLetters()):
                self._publish(step)
            case Leaving():
                raise AssertionError(f"{_place(held)}: {step.route}: a bug; please report it")
            case _:
                assert_never(step)
        return ()

    def _halves(self, held: Held[SparkBatch], attempt: FailedAttempt) -> Sequence[SparkBatch]:
        if not isinstance(attempt.failure, Permanent):
            return ()
        batch = held.message
        halves = batch.halves()
        if halves and batch is self._in_hand:
            place, failures = (*held.partition, held.offset), held.failures.count + 1
            self._emit(events.BatchTakenApart(*place, batch.size(), attempt.text, failures))
        return halves

    def _begin(self, batch: SparkBatch) -> bool:
        """Returns whether it is the first of a run, which may have come in an earlier one."""
        self._in_hand = batch
        if self._run == batch.run:
            return False
        if self._publisher is not None:
            _check_topic(self._publisher)
        for journal in self._journals:
            journal.prepare([journal.topic])
        self._run, self._has_begun = batch.run, True
        self._emit(events.Assigned((batch.place,)))
        return True

    def _recalled(self, held: Held[SparkBatch]) -> Held[SparkBatch]:
        """Continues to count: else a job that is restarted often enough would never give up."""
        known = held.message.recall()
        if known is None:
            return held
        failures, first_ms = known
        elapsed_s = max(self._clock.utc_ms() - first_ms, 0) / 1000
        first_s = self._clock.now_s() - elapsed_s
        return replace(held, failures=Failures(failures, first_s=first_s, first_ms=first_ms))

    def _leave(self, batch: SparkBatch) -> None:
        """Drops the batch as its stream ends."""
        self._run = None
        self._emit_all([self._engine.close(_SCOPE, "dropped")])
        self._emit(events.Revoked((batch.place,)))

    def _described(self, held: Held[SparkBatch], error: Exception) -> FailedAttempt:
        """Chooses the bad rows, if the error names them."""
        if not isinstance(error, BadRows):
            return self._engine.described(error)
        place = _place(held)
        if not isinstance(error.cause, Exception):
            raise UsageError(
                f"{place}: the handler raised BadRows with cause={error.cause!r}; give the error"
            )
        try:
            held.message.choose(error.rows)
        except UsageError as wrong:
            raise UsageError(f"{place}: the handler raised BadRows with {wrong}") from error
        release(error)
        # Whatever `transient` says of the cause: the handler is done with the others.
        return self._engine.described(error.cause, is_permanent=True)

    def _error_of(self, held: Held[SparkBatch]) -> Exception | None:
        batch = held.message
        before = answer_by(partial(self._engine.info, held.failures, _record(held)))
        try:
            self._results.check(batch.attempt())
        except UndoneError as undone:
            place = f"{batch.place[0]}, micro-batch {batch.number}"
            raise UsageError(f"{place}: the handler returned {undone}") from None
        except Exception as error:  # noqa: BLE001  (the handler's: any exception is an outcome)
            return error
        finally:
            answer_by(before)
        return None

    def _publish(self, left: Leaving[SparkBatch]) -> None:
        """Sends a letter for each row, or each bad one, in order, in place of one for the batch.

        Done once the last is acknowledged.
        """
        batch = left.held.message
        for record in batch.records():
            if batch.is_stopping():
                batch.end()
            self._send(left, record)
        self._settle(Settle(left.held, "dead-lettered"))

    def _send(self, of_batch: Leaving[SparkBatch], record: Record) -> None:
        """Sends it, however often it takes; raises only for a stop."""
        batch, publisher = of_batch.held.message, self._publisher
        if publisher is None:
            raise AssertionError("no dead-letter topic: a bug; please report it")
        if record.topic == publisher.topic:
            raise ConfigurationError(
                f"dead_letters={publisher.topic!r}: the stream reads this topic, and would "
                "read its own letters; choose another topic"
            )
        held = replace(
            of_batch.held, partition=(record.topic, record.partition), offset=record.offset
        )
        reason, route = of_batch.letter.reason, of_batch.route
        of_row = leaving(held, record, reason, self._line, route)
        while True:
            match _answer(publisher.send(of_row, lambda: record)):
                case Acknowledged():
                    self._emit_all([self._engine.acknowledged(of_row).event])
                    return
                case Abandoned():
                    batch.end()
                case NotSent(error):
                    # Not the row's partition, which would look like a member's in the journal.
                    hold = self._engine.not_sent(of_batch, f"{record.place}: {error}")
                    self._emit_all(hold.events)
                    of_batch = replace(of_batch, sends=of_batch.sends + 1)
                    self._wait(batch, hold.delay_s)

    def _settle(self, settle: Settle[SparkBatch]) -> None:
        """Closes the circuit; the stream stores the batch itself, once `handle` returns."""
        self._emit_all([settle.event, self._engine.close(_SCOPE, settle.outcome)])

    def _emit_all(self, happened: Iterable[events.Event | None]) -> None:
        for event in happened:
            if event is not None:
                self._emit(event)

    def _wait(self, batch: SparkBatch, delay_s: float) -> None:
        batch.wait(delay_s)
        self._circuits.half_open(_SCOPE)


def _answer(steps: Steps[Answer]) -> Answer:
    """Runs the steps to their result: a stream has no consumer to poll meanwhile."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            found: Answer = ended.value
            return found


def _check_topic(publisher: DeadLetterPublisher) -> None:
    """Raises `ConfigurationError`, `UnknownTopicError` and `BrokerError`."""
    publisher.prepare()
    try:
        is_there = publisher.partitions(publisher.topic, _START_WITHIN_S) is not None
    except KafkaException as error:
        raise BrokerError(
            f"topic {publisher.topic!r}: no broker said within {_START_WITHIN_S:g} s whether it "
            f"exists: {error}; check the address, the network and the security settings"
        ) from error
    if not is_there:
        raise UnknownTopicError(
            f"topic {publisher.topic!r} for dead letters does not exist; create it, or give "
            "this user DESCRIBE on it"
        )


def _record(held: Held[SparkBatch]) -> Record:
    """The whole batch, without reading its rows."""
    return Record(*held.partition, held.offset, -1, None, None)


def _place(held: Held[SparkBatch]) -> str:
    return f"{held.partition[0]}, micro-batch {held.offset}"
