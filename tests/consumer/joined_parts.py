"""The parts of a consumer, over a client that only records, for tests of one part."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import KafkaError, Message, TopicPartition

from linear_retry.consumer.control.operator_actions import OperatorActions
from linear_retry.consumer.operations.lifecycle import Shutdown
from linear_retry.consumer.operations.monitor import Monitor
from linear_retry.consumer.ownership.requests import Requests
from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.client_events import ClientErrors
from linear_retry.consumer.partitions.commit_notes import CommitNotes
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.offset_reset import OffsetReset
from linear_retry.consumer.partitions.offsets import OffsetCommits, Offsets
from linear_retry.consumer.partitions.polling import DeliveryFilter, OffsetCheck
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.consumer.partitions.unreadable_batches import UnreadableBatches
from linear_retry.events import Event
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.consumer.settings import consumer_settings
from linear_retry.kafka.topics.batch_end import BatchEnd
from linear_retry.records.lineage import Line
from linear_retry.retry.circuits import Circuits
from linear_retry.retry.decision import Policy, RetrySettings
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


class Joined:
    """Real parts over a consumer that only records; `happened` has every event."""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.happened: list[Event] = []
        self.emit = self.happened.append
        self.librdkafka: RecordingConsumer
        self._answered = 0
        self.clock = VirtualClock()
        now_s = self.clock.now_s
        self.settings = consumer_settings(LEAST | dict(config or {}))
        self.client = Client(self.settings, self._make)
        self.assignment = Assignment(now_s)
        self.offsets = Offsets()
        self.monitor = Monitor((self.emit,), self.clock.utc_ms)
        self.circuits: Circuits[Message] = Circuits(self.settings.group_id)
        self.read_ahead = ReadAhead(
            self.client,
            self.clock,
            lambda: self.assignment.epoch,
            max_poll_interval_s=self.settings.max_poll_interval_s,
            session_timeout_s=self.settings.session_timeout_s,
        )
        self.flow_control = FlowControl(
            *(self.client, self.assignment, self.offsets, self.circuits, self.read_ahead),
            self.emit,
        )
        self.commits = OffsetCommits(self.client, now_s, self.offsets, self.emit)
        self.errors = ClientErrors(
            self.client, now_s, self.settings.group_id, self.flow_control, self.emit
        )
        self.notes = CommitNotes(
            *(self.client, self.assignment, self.circuits, self.read_ahead),
            remembers=False,
            on_unreadable="refuse",
        )
        self.client.set_listener(_Told(self.offsets))

    @property
    def shutdown(self) -> Shutdown:
        leaves_group = self.settings.static_member is None
        return Shutdown(
            self.client, self.assignment, self.offsets, self.emit, leaves_group=leaves_group
        )

    def offset_reset(self) -> OffsetReset:
        return OffsetReset(
            *(self.client, self.assignment, self.flow_control, self.settings.reset, self.emit)
        )

    def offset_check(self) -> OffsetCheck:
        return OffsetCheck(
            *(self.assignment, self.read_ahead, self.flow_control, self.commits, self.notes),
            self.errors,
            self.client.leader_epochs,
        )

    def delivery_filter(
        self, check: OffsetCheck | None = None, reset: OffsetReset | None = None
    ) -> DeliveryFilter:
        return DeliveryFilter(
            *(self.assignment, self.read_ahead, check or self.offset_check()),
            reset or self.offset_reset(),
            UnreadableBatches(
                *(self.clock, self.assignment, self.flow_control, Requests()),
                BatchEnd(self.settings.config, self._make),
                self.emit,
            ),
            self.errors,
        )

    def operator_actions(self, policy: Policy, requests: Requests | None = None) -> OperatorActions:
        return OperatorActions(
            *(self.circuits, self.clock, requests or Requests()),
            RetrySettings(policy, lambda _: True, "consumer"),
            Line(self.settings.group_id),
            self.emit,
        )

    def _make(self, config: Mapping[str, Any]) -> RecordingConsumer:
        self.librdkafka = RecordingConsumer(config)
        self.librdkafka.answers["committed"] = lambda asked, timeout: asked
        return self.librdkafka

    def own(self, *partitions: Partition, done: int | None = None) -> None:
        """Assigned, and handled up to `done`."""
        self.librdkafka.answers["assignment"] = [TopicPartition(*each) for each in partitions]
        self.assignment.take(partitions)
        self.offsets.begin(partitions)
        if done is not None:
            self.offsets.done(dict.fromkeys(partitions, done))

    def acknowledge(self) -> None:
        """The broker has answered all that was sent off, and says so in a poll."""
        sent = [given for name, given in self.librdkafka.calls if name == "commit"]
        for offsets, _ in sent[self._answered :]:
            items = [TopicPartition(*each) for each in offsets]
            self.librdkafka.config["on_commit"](None, items)
        self._answered = len(sent)
        self.client.callbacks.raise_kept()


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

    def committed(self, offsets: Mapping[Partition, tuple[int, str]]) -> None:
        self.offsets.committed(offsets)

    def note_refused(self, partition: Partition, characters: int) -> None:
        raise AssertionError(partition)

    def commit_failed(self, error: KafkaError, partitions: tuple[Partition, ...]) -> None:
        raise AssertionError(error, partitions)

    def client_error(self, error: KafkaError) -> None:
        raise AssertionError(error)
