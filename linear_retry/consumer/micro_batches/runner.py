"""Attempts a micro-batch until it is done or given up, like a consumer's message."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NoReturn, Protocol

from linear_retry import events
from linear_retry.consumer.dead_letters.publisher import (
    DeadLetterPublisher,
    Steps,
    Stop,
)
from linear_retry.consumer.runners.results import Results, UndoneError
from linear_retry.errors import BrokerError, ConfigurationError, UnknownTopicError, UsageError
from linear_retry.events import Listener
from linear_retry.journal.journal import Journal
from linear_retry.kafka import KafkaException
from linear_retry.records.dead_letter import DeadLetter
from linear_retry.records.lineage import Line, Lineage, lineage_of
from linear_retry.records.record import Record
from linear_retry.retry.circuits import Circuits, CircuitView
from linear_retry.retry.clock import Clock
from linear_retry.retry.engine import (
    Abandoned,
    Acknowledged,
    Answer,
    ConsecutiveDeadLetters,
    Engine,
    NotSent,
)
from linear_retry.retry.held import Held, dead_letter
from linear_retry.retry.policy import RetrySettings
from linear_retry.scope import Partition, Scope

_SCOPE = Scope()
_START_WITHIN_S = 10.0


class MicroBatch(Protocol):
    """One micro-batch of a stream, which does not continue until it is finished."""

    @property
    def place(self) -> Partition:
        """The stream's name and 0: the topic and partition of its events."""

    @property
    def number(self) -> int:
        """Its number in the stream: the offset of its events."""

    @property
    def run(self) -> str:
        """The id of the stream's run that it belongs to."""

    def attempt(self) -> object:
        """Calls the handler. Returns and raises what the handler does."""

    def wait(self, seconds: float) -> None:
        """Waits at least that long. If the stream is stopped meanwhile, calls `end` at once."""

    def is_stopping(self) -> bool:
        """Whether the stream is being stopped: failures are then meaningless."""

    def end(self) -> NoReturn:
        """Raises what a stream that is being stopped takes for its end."""

    def records(self) -> Iterator[Record]:
        """Yields its rows as read from Kafka, in order per partition, few in memory at a time."""


class MicroBatchRunner:
    """Attempts the micro-batches of one stream, in their order, one at a time.

    Owns their circuit, which holds the batch, even while the letters of its rows are sent. Also the
    engine's target, as a stream pauses by itself and stores what is done; and the `Stop` that ends
    the wait for a letter.
    """

    interrupted = False

    def __init__(
        self,
        settings: RetrySettings,
        circuits: Circuits[MicroBatch],
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
        self._line = Line(group_id)
        self._publisher = None if publisher is None else publisher(self)
        self._journals = journals
        self._engine: Engine[MicroBatch] = Engine(
            settings, circuits, ConsecutiveDeadLetters(), emit, clock, self
        )
        self._results = Results()
        self._in_hand: MicroBatch | None = None
        self._run: str | None = None
        self._has_begun = False

    def handle(self, batch: MicroBatch) -> None:
        """Returns once it is done, dead-lettered or skipped; only then may the stream continue.

        Raises `ExhaustedError` and `PermanentError` if `"stop"` was chosen, `UsageError` if
        `transient` raises or the handler returns work that would not run, and what `MicroBatch.end`
        raises. The batch is not done then, and is delivered again.
        """
        self._begin(batch)
        is_over = False
        try:
            held = Held(batch, batch.place, batch.number, epoch=None)
            while (error := self._error_of(batch)) is not None:
                if batch.is_stopping():
                    batch.end()  # a stop may make the handler fail with any error
                opening = self._engine.failed(held, error)
                if opening is None:
                    break
                held = opening.held
                self._wait(batch, opening.delay_s)
            else:
                self._engine.finish(held, "recovered")
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

    # -- the engine's target -----------------------------------------------------------------

    def pause(self, scope: Scope) -> None:
        """Does nothing: the stream waits for `handle`."""

    resume = pause

    def done(self, held: Held[MicroBatch]) -> None:
        """Does nothing: the stream stores it once `handle` returns."""

    def lineage(self, held: Held[MicroBatch]) -> Lineage:
        return lineage_of(self._record(held), self._line)

    def letter(self, held: Held[MicroBatch], reason: str) -> DeadLetter:
        """Builds one letter for the whole batch, without reading its rows."""
        return dead_letter(self._record(held), held, reason, self._line)

    def publish(self, held: Held[MicroBatch], reason: str) -> None:
        """Sends a letter for each row, in order; done once the last is acknowledged."""
        batch = held.message
        for record in batch.records():
            if batch.is_stopping():
                batch.end()
            self._send(held, record, reason)
        self._engine.finish(held, "dead-lettered")

    def recover(self, held: Held[MicroBatch]) -> None:
        """Never called: a stream has no such choice."""
        raise AssertionError(f"{self.place(held)}: no recovery callback: a bug; please report it")

    def take_apart(self, held: Held[MicroBatch]) -> None:
        """Never called: a micro-batch is held as one."""
        raise AssertionError(f"{self.place(held)}: taken apart: a bug; please report it")

    def place(self, held: Held[MicroBatch]) -> str:
        return f"{held.partition[0]}, micro-batch {held.offset}"

    # -- inside ------------------------------------------------------------------------------

    @staticmethod
    def _record(held: Held[MicroBatch]) -> Record:
        return Record(*held.partition, held.offset, -1, None, None)

    def _begin(self, batch: MicroBatch) -> None:
        self._in_hand = batch
        if self._run != batch.run:
            if self._publisher is not None:
                _check_topic(self._publisher)
            for journal in self._journals:
                journal.prepare([journal.topic])
            self._run, self._has_begun = batch.run, True
            self._emit(events.Assigned((batch.place,)))

    def _leave(self, batch: MicroBatch) -> None:
        """Drops the batch as its stream ends; the next stream counts failures from zero."""
        self._run = None
        self._engine.drop(_SCOPE)
        self._emit(events.Revoked((batch.place,)))

    def _error_of(self, batch: MicroBatch) -> Exception | None:
        try:
            self._results.check(batch.attempt())
        except UndoneError as undone:
            place = f"{batch.place[0]}, micro-batch {batch.number}"
            raise UsageError(f"{place}: the handler returned {undone}") from None
        except Exception as error:  # noqa: BLE001  (the handler's: any exception is an outcome)
            return error
        return None

    def _send(self, held: Held[MicroBatch], record: Record, reason: str) -> None:
        """Sends it, however often it takes; raises only for a stop."""
        batch, publisher = held.message, self._publisher
        if publisher is None:
            raise AssertionError("no dead-letter topic: a bug; please report it")
        if record.topic == publisher.topic:
            raise ConfigurationError(
                f"dead_letters={publisher.topic!r}: the stream reads this topic, and would "
                "read its own letters; choose another topic"
            )
        letter = dead_letter(record, held, reason, self._line)
        of_row = replace(held, partition=(record.topic, record.partition), offset=record.offset)
        while True:
            match _answer(publisher.send(of_row, letter, lambda: record)):
                case Acknowledged():
                    self._engine.acknowledged(of_row, letter, finishes=False)
                    return
                case Abandoned():
                    batch.end()
                case NotSent(error):
                    # Not the row's partition, which would look like a member's in the journal.
                    opening = self._engine.not_sent(held, f"{record.place}: {error}")
                    held = opening.held
                    self._wait(batch, opening.delay_s)

    def _wait(self, batch: MicroBatch, delay_s: float) -> None:
        batch.wait(delay_s)
        self._circuits.half_open(_SCOPE)


def _answer(steps: Steps[Answer]) -> Answer:
    """Runs the steps to their result: a stream has no consumer to poll meanwhile."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            answer: Answer = ended.value
            return answer


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
