"""Attempts a micro-batch until it is done or given up, as a consumer does a message."""

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
from linear_retry.records.record import Record
from linear_retry.retry.circuits import Circuits, CircuitView
from linear_retry.retry.clock import Clock
from linear_retry.retry.decision import RetrySettings
from linear_retry.retry.engine import (
    Abandoned,
    Acknowledged,
    Answer,
    ConsecutiveDeadLetters,
    Engine,
    NotSent,
)
from linear_retry.retry.held import Held, dead_letter
from linear_retry.scope import Partition, Scope

_SCOPE = Scope()
_START_WITHIN_S = 10.0


class MicroBatch(Protocol):
    """One micro-batch in the hands of its stream, which goes no further meanwhile."""

    @property
    def place(self) -> Partition:
        """The name of its stream, and 0: what events have for topic and partition."""

    @property
    def number(self) -> int:
        """Its number in that stream: what events have for the offset."""

    @property
    def run(self) -> str:
        """Which start of the stream it is of."""

    def attempt(self) -> object:
        """Have it handled. Returns and raises what the handler does."""

    def wait(self, seconds: float) -> None:
        """Never shorter. Where the stream is stopped meanwhile, `end` at once."""

    def is_stopping(self) -> bool:
        """Whether the stream is being stopped: what fails then says nothing."""

    def end(self) -> NoReturn:
        """Of a stream that is being stopped: raises what that takes for its end."""

    def records(self) -> Iterator[Record]:
        """Its rows as they came from Kafka, each partition in order, few at a time."""


class MicroBatchRunner:
    """Attempts the micro-batches of one stream, in their order, one at a time.

    The circuit is theirs, and holds the batch, also while the letters of its rows are sent. The
    engine's target too: a stream stands still by itself, and stores what is done. And the `Stop`
    that ends the wait for a letter.
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
        """`publisher` makes that of a stream; None only where no choice needs dead letters."""
        self.needs_dead_letters = settings.policy.needs_dead_letters
        self._circuits = circuits
        self._emit = emit
        self._group_id = group_id
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
        """Returns once it is done, dead-lettered or skipped; only then the stream may go on.

        Raises `ExhaustedError` and `PermanentError` where `"stop"` was chosen, `UsageError` where
        `transient` raises or the handler returns what nobody would do, and what `MicroBatch.end`
        raises. The batch is not done then: it comes
        again.
        """
        self._begin(batch)
        is_over = False
        try:
            held = Held(batch, batch.place, batch.number, epoch=None)
            while (error := self._error_of(batch)) is not None:
                if batch.is_stopping():
                    batch.end()  # what a stop interrupts fails of anything
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
        """Whether its stream is being stopped."""
        return self._in_hand is not None and self._in_hand.is_stopping()

    @property
    def circuit(self) -> CircuitView:
        """As it is now; for any thread."""
        return self._circuits.views[_SCOPE]

    def close(self) -> None:
        """The last event, where there was any."""
        self._run = None
        if self._publisher is not None:
            self._publisher.close()
        if self._has_begun:
            self._has_begun = False
            self._emit(events.Stopped(left_group=True))

    # -- the engine's target -----------------------------------------------------------------

    def pause(self, scope: Scope) -> None:
        """The stream waits for `handle`."""

    resume = pause

    def done(self, held: Held[MicroBatch]) -> None:
        """The stream stores it, once `handle` returns."""

    def letter(self, held: Held[MicroBatch], reason: str) -> DeadLetter:
        """One for all its rows: they are not read for that."""
        record = Record(*held.partition, held.offset, -1, None, None)
        return dead_letter(record, held, reason, self._group_id)

    def publish(self, held: Held[MicroBatch], reason: str) -> None:
        """A letter for each row, in order. Over once the last of them is acknowledged."""
        batch = held.message
        for record in batch.records():
            if batch.is_stopping():
                batch.end()
            self._send(held, record, reason)
        self._engine.finish(held, "dead-lettered")

    def place(self, held: Held[MicroBatch]) -> str:
        return f"{held.partition[0]}, micro-batch {held.offset}"

    # -- inside ------------------------------------------------------------------------------

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
        """Its stream ends, and the next one counts from zero."""
        self._run = None
        self._engine.drop(_SCOPE)
        self._emit(events.Revoked((batch.place,)))

    def _error_of(self, batch: MicroBatch) -> Exception | None:
        try:
            self._results.check(batch.attempt())
        except UndoneError as undone:
            place = f"{batch.place[0]}, micro-batch {batch.number}"
            raise UsageError(f"{place}: the handler returned {undone}") from None
        except Exception as error:  # noqa: BLE001  (the handler's: any of it is an outcome)
            return error
        return None

    def _send(self, held: Held[MicroBatch], record: Record, reason: str) -> None:
        """Sent, whatever it takes: with no exception but that of a stop."""
        batch, publisher = held.message, self._publisher
        if publisher is None:
            raise AssertionError("no dead-letter topic: a bug; please report it")
        if record.topic == publisher.topic:
            raise ConfigurationError(
                f"dead_letters={publisher.topic!r}: the stream reads this topic, and would "
                "read its own letters; choose another topic"
            )
        letter = dead_letter(record, held, reason, self._group_id)
        of_row = replace(held, partition=(record.topic, record.partition), offset=record.offset)
        while True:
            match _answer(publisher.send(of_row, letter, lambda: record)):
                case Acknowledged():
                    self._engine.acknowledged(of_row, letter, finishes=False)
                    return
                case Abandoned():
                    batch.end()
                case NotSent(error):
                    # The row's partition is no stream's: in the journal it would be a member's.
                    opening = self._engine.not_sent(held, f"{record.place}: {error}")
                    held = opening.held
                    self._wait(batch, opening.delay_s)

    def _wait(self, batch: MicroBatch, delay_s: float) -> None:
        batch.wait(delay_s)
        self._circuits.half_open(_SCOPE)


def _answer(steps: Steps[Answer]) -> Answer:
    """What they come to: a stream has no consumer that is to be polled meanwhile."""
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
        is_there = publisher.partitions(_START_WITHIN_S) is not None
    except KafkaException as error:
        raise BrokerError(
            f"topic {publisher.topic!r}: no broker said within {_START_WITHIN_S:g} s whether it "
            f"exists: {error}; check the address, the network and the security settings"
        ) from error
    if not is_there:
        raise UnknownTopicError(
            f"there is no topic {publisher.topic!r} for dead letters; create it, or give this user "
            "DESCRIBE on it"
        )
