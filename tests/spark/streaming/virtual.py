"""A stream of micro-batches in virtual time, over a fake Kafka."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import NoReturn

from linear_retry import Event, Strategy, StrategyFile, UsageError
from linear_retry.consumer.letters.publisher import (
    AckWait,
    DeadLetterPublisher,
    PlainDelivery,
    Stop,
)
from linear_retry.consumer.settings.checks import chosen_strategy
from linear_retry.consumer.settings.rules import Rules
from linear_retry.events import Listener
from linear_retry.kafka.producers.acknowledged import AcknowledgedProducer
from linear_retry.records.record import Record
from linear_retry.retry.circuits import Circuits
from linear_retry.retry.decision import IsTransient, OnExhausted, OnPermanent, Policy, RetrySettings
from linear_retry.scope import Partition
from linear_retry.spark.streaming.batch import SparkBatch
from linear_retry.spark.streaming.runner import MicroBatchRunner
from tests.consumer.group import OutageError
from tests.fake.cluster import FakeKafka
from tests.fake.topic import Record as Kept

LETTERS = "orders.dlq"
PLACE = "spark:charge", 0


class StoppedError(Exception):
    """What a stream wants to hear when it is stopped."""


@dataclass
class Stream(SparkBatch):
    """Has its micro-batches handled, and is stopped when a test says so."""

    kafka: FakeKafka
    handler: Callable[[int], object]
    rows: Sequence[Record] = ()
    run: str = "run-1"
    stopping: bool = False
    place: Partition = PLACE
    number: int = 0
    attempted_at_s: list[float] = field(default_factory=list)
    waits_s: list[float] = field(default_factory=list)
    read: int = 0

    chosen: Sequence[Record] | None = None
    noted: tuple[int, int] | None = None

    def attempt(self) -> object:
        self.chosen = None
        self.attempted_at_s.append(self.kafka.clock.now_s())
        return self.handler(self.number)

    def halves(self) -> Sequence["Stream"]:
        return ()

    def size(self) -> int:
        return len(self.rows)

    def recall(self) -> tuple[int, int] | None:
        return self.noted

    def note(self, failures: int, first_failure_ms: int) -> None:
        self.noted = failures, first_failure_ms

    def wait(self, seconds: float) -> None:
        self.waits_s.append(seconds)
        until_s = self.kafka.clock.now_s() + seconds
        while self.kafka.clock.now_s() < until_s:
            if self.is_stopping():
                self.end()
            self.kafka.clock.wait(until_s)

    def is_stopping(self) -> bool:
        return self.stopping

    def end(self) -> NoReturn:
        raise StoppedError

    def choose(self, rows: object) -> None:
        assert isinstance(rows, list)
        self.chosen = [each for each in self.rows if each.place in rows]
        if not rows or len(self.chosen) < len(rows):
            raise UsageError("rows that are not there")

    def records(self) -> Iterator[Record]:
        for row in self.rows if self.chosen is None else self.chosen:
            self.read += 1
            yield row

    def stop(self) -> None:
        self.stopping = True


@dataclass
class Bisected(Stream):
    """May be halved; `of_offsets` is its handler, and gets those of its rows."""

    of_offsets: Callable[[list[int]], object] = lambda offsets: None
    attempted: list[list[int]] = field(default_factory=list)
    whole: Stream | None = None

    def attempt(self) -> object:
        self.chosen = None
        self.attempted.append([each.offset for each in self.rows])
        return self.of_offsets(self.attempted[-1])

    def halves(self) -> Sequence[Stream]:
        middle = len(self.rows) // 2
        return [self._half(self.rows[:middle]), self._half(self.rows[middle:])] if middle else ()

    def is_stopping(self) -> bool:
        return self.stopping if self.whole is None else self.whole.stopping

    def _half(self, rows: Sequence[Record]) -> Stream:
        part = copy(self)
        part.rows, part.whole = rows, self.whole or self
        return part


class World:
    """What attempts the batches of one stream, and what has happened."""

    def __init__(
        self,
        delays: Sequence[float] | Strategy | StrategyFile,
        *,
        on_exhausted: OnExhausted = "dead-letter",
        on_permanent: OnPermanent = "dead-letter",
        limit: int | None = None,
        with_letters: bool = True,
        is_transient: IsTransient = lambda error: isinstance(error, OutageError),
        listener: Listener = lambda event: None,
    ) -> None:
        self.listener = listener
        self.kafka = FakeKafka()
        self.kafka.create_topic(LETTERS, 2)
        self.events: list[Event] = []
        self.circuits: Circuits[SparkBatch] = Circuits("billing")
        strategy = chosen_strategy(delays, has_transient=True, repeats=False, by_topic=False)
        rules = strategy if isinstance(strategy, Rules) else None
        policy = Policy(strategy, on_exhausted, on_permanent, limit, dead_letters=LETTERS)
        self.runner = MicroBatchRunner(
            RetrySettings(policy, is_transient, "consumer", rules=rules),
            self.circuits,
            self._emit,
            self.kafka.clock,
            "billing",
            self._publisher if with_letters else None,
        )

    def stream(self, handler: Callable[[int], object], rows: Sequence[Record] = ()) -> Stream:
        return Stream(self.kafka, handler, rows)

    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]

    def letters(self, partition: int = 0) -> list[Kept]:
        return list(self.kafka.topics[LETTERS].partitions[partition].records)

    def _publisher(self, stop: Stop) -> DeadLetterPublisher:
        wait = AckWait(self.kafka.clock, {}, stop, answer_within_s=40.0)
        producer = AcknowledgedProducer(
            LETTERS, {"message.timeout.ms": 30_000}, self.kafka.producer
        )
        return DeadLetterPublisher(PlainDelivery(producer, wait), wait, "hold", self._emit)

    def _emit(self, event: Event) -> None:
        self.events.append(event)
        self.listener(event)


def row(offset: int, partition: int = 0, topic: str = "orders") -> Record:
    return Record(topic, partition, offset, 1_000, b"k", b"v%d" % offset, (("h", b"1"),))
