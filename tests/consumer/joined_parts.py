"""What does a part of the consumer see that is tested by itself?"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from confluent_kafka import KafkaError, Message, TopicPartition

from linear_retry.consumer.operations.requests import Requests
from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.delivery_filter import DeliveryFilter
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.offsets import Offsets
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.consumer.state import Parts
from linear_retry.consumer.watchdogs.unreadable_batches import UnreadableBatches
from linear_retry.events import Event
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.consumer.settings import consumer_settings
from linear_retry.kafka.topics.batch_end import BatchEnd
from linear_retry.retry.circuits import Circuits
from linear_retry.scope import Partition
from tests.fake.clock import VirtualClock
from tests.recording_consumer import RecordingConsumer

LEAST = {"bootstrap.servers": "localhost:9092", "group.id": "billing"}


T = TypeVar("T")


def driven(steps: Generator[bool, None, T], poll: Callable[[bool], object] = bool) -> T:
    """What the steps of a delivery come to; `poll` is called where the loop would poll."""
    while True:
        try:
            polls_at_once = next(steps)
        except StopIteration as ended:
            answer: T = ended.value
            return answer
        poll(polls_at_once)


@dataclass(slots=True)
class Joined:
    """Real parts over a consumer that only records; `happened` has every event."""

    config: Mapping[str, Any] = field(default_factory=dict)
    clock: VirtualClock = field(default_factory=VirtualClock)
    happened: list[Event] = field(default_factory=list)
    librdkafka: RecordingConsumer = field(init=False)
    parts: Parts = field(init=False)
    _answered: int = 0

    def __post_init__(self) -> None:
        settings = consumer_settings(LEAST | dict(self.config))
        client, assignment = Client(settings, self._make), Assignment()
        reading = ReadAhead(
            client,
            self.clock,
            lambda: assignment.epoch,
            max_poll_interval_s=settings.max_poll_interval_s,
            session_timeout_s=settings.session_timeout_s,
        )
        circuits: Circuits[Message] = Circuits(settings.group_id, lambda: None)
        self.parts = Parts(
            settings,
            client,
            self.clock,
            assignment,
            Offsets(),
            circuits,
            reading,
            self.happened.append,
        )
        client.set_listener(_Told(self.parts.offsets))

    def delivery_filter(self, flow_control: FlowControl) -> DeliveryFilter:
        """The way in, for which nothing searches."""
        batch_end = BatchEnd({}, self._make)
        return DeliveryFilter(
            self.parts,
            flow_control,
            UnreadableBatches(self.parts, flow_control, Requests(), batch_end),
        )

    def _make(self, config: Mapping[str, Any]) -> RecordingConsumer:
        self.librdkafka = RecordingConsumer(config)
        return self.librdkafka

    def own(self, *partitions: Partition, done: int | None = None) -> None:
        """Assigned, and handled up to `done`."""
        self.librdkafka.answers["assignment"] = [TopicPartition(*each) for each in partitions]
        self.parts.assignment.take(partitions, self.clock.now_s())
        self.parts.offsets.begin(partitions)
        if done is not None:
            self.parts.offsets.done(dict.fromkeys(partitions, done))

    def acknowledge(self) -> None:
        """The broker has answered all that was sent off, and says so in a poll."""
        sent = [given for name, given in self.librdkafka.calls if name == "commit"]
        for offsets, _ in sent[self._answered :]:
            items = [TopicPartition(*each) for each in offsets]
            self.librdkafka.config["on_commit"](None, items)
        self._answered = len(sent)
        self.parts.client.callbacks.raise_kept()


@dataclass(frozen=True)
class _Told:
    """What comes of an acknowledgement, and nothing else."""

    offsets: Offsets

    def assigned(self, partitions: list[Partition]) -> None:
        raise AssertionError(partitions)

    def revoked(self, partitions: list[Partition]) -> None:
        raise AssertionError(partitions)

    def lost(self, partitions: list[Partition]) -> None:
        raise AssertionError(partitions)

    def committed(self, offsets: Mapping[Partition, int]) -> None:
        self.offsets.committed(offsets)

    def commit_failed(self, error: KafkaError, partitions: tuple[Partition, ...]) -> None:
        raise AssertionError(error, partitions)

    def client_error(self, error: KafkaError) -> None:
        raise AssertionError(error)
