"""A stream of micro-batches in virtual time, over a fake Kafka."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from linear_retry import Event, Strategy
from linear_retry.consumer.dead_letters.plain import PlainDelivery
from linear_retry.consumer.dead_letters.publisher import (
    AckWait,
    DeadLetterPublisher,
    Stop,
)
from linear_retry.consumer.micro_batches.runner import MicroBatch, MicroBatchRunner
from linear_retry.kafka.producers.acknowledged import AcknowledgedProducer
from linear_retry.records.record import Record
from linear_retry.retry.circuits import Circuits
from linear_retry.retry.policy import IsTransient, OnExhausted, OnPermanent, Policy, RetrySettings
from linear_retry.scope import Partition
from tests.consumer.group import OutageError
from tests.fake.cluster import FakeKafka
from tests.fake.topic import Record as Kept

LETTERS = "orders.dlq"
PLACE = "spark:charge", 0


class StoppedError(Exception):
    """What a stream wants to hear when it is stopped."""


@dataclass
class Stream:
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

    def attempt(self) -> object:
        self.attempted_at_s.append(self.kafka.clock.now_s())
        return self.handler(self.number)

    def wait(self, seconds: float) -> None:
        self.waits_s.append(seconds)
        until_s = self.kafka.clock.now_s() + seconds
        while self.kafka.clock.now_s() < until_s:
            if self.stopping:
                self.end()
            self.kafka.clock.wait(until_s)

    def is_stopping(self) -> bool:
        return self.stopping

    def end(self) -> NoReturn:
        raise StoppedError

    def records(self) -> Iterator[Record]:
        for row in self.rows:
            self.read += 1
            yield row

    def stop(self) -> None:
        self.stopping = True


class World:
    """What attempts the batches of one stream, and what has happened."""

    def __init__(
        self,
        delays: Sequence[float] | Strategy,
        *,
        on_exhausted: OnExhausted = "dead-letter",
        on_permanent: OnPermanent = "dead-letter",
        limit: int | None = None,
        with_letters: bool = True,
        is_transient: IsTransient = lambda error: isinstance(error, OutageError),
    ) -> None:
        self.kafka = FakeKafka()
        self.kafka.create_topic(LETTERS, 2)
        self.events: list[Event] = []
        self.circuits: Circuits[MicroBatch] = Circuits("billing")
        strategy = delays if isinstance(delays, Strategy) else Strategy(list(delays))
        policy = Policy(strategy, on_exhausted, on_permanent, limit, dead_letters=LETTERS)
        self.runner = MicroBatchRunner(
            RetrySettings(policy, is_transient, "consumer"),
            self.circuits,
            self.events.append,
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
        return DeadLetterPublisher(PlainDelivery(producer, wait), wait, "hold", self.events.append)


def row(offset: int, partition: int = 0, topic: str = "orders") -> Record:
    return Record(topic, partition, offset, 1_000, b"k", b"v%d" % offset, (("h", b"1"),))
