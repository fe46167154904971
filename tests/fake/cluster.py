"""The fake cluster: topics, groups, the clock, the faults, the log."""

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ClusterMetadata  # type: ignore[attr-defined]  # exported by import only

from linear_retry.scope import Partition
from tests.fake.admin import FakeAdmin
from tests.fake.clock import NothingCanHappenError, VirtualClock
from tests.fake.consumer import FakeConsumer
from tests.fake.faults import Faults
from tests.fake.membership import Kind
from tests.fake.metadata import described
from tests.fake.producer import FakeProducer
from tests.fake.topic import CorruptBatch, FakeTopic, Headers, PartitionLog
from tests.fake.transactions import Coordinator

LogEntry = tuple[float, str, str, Any]


class FakeKafka:
    """A cluster whose rebalances and faults happen when a test says so, and never else.

    `log` has (virtual seconds, client, call, arguments) of every call of every client, and the
    callbacks served as `on_assign`, `on_revoke`, `on_lost`, `on_delivery`. More than `idle_polls`
    polls in a row in which nothing came raise `NothingCanHappenError`, from then on always.
    """

    def __init__(
        self,
        clock: VirtualClock | None = None,
        *,
        balanced: bool = False,
        idle_polls: int = 100_000,
    ) -> None:
        """`balanced`: the group shares partitions out by itself when members come and go."""
        self.clock = clock or VirtualClock()
        self.faults = Faults()
        self.topics: dict[str, FakeTopic] = {}
        self.log: list[LogEntry] = []
        self.consumers: list[FakeConsumer] = []
        self.producers: list[FakeProducer] = []
        self.transactions = Coordinator(self)
        self.session_ms = 45_000
        self.names_taken_until_s: dict[str, float] = {}
        self._groups: dict[str, dict[Partition, int]] = {}
        self._notes: dict[str, dict[Partition, str]] = {}
        self._leader_epochs: dict[str, dict[Partition, int]] = {}
        self._subscriptions: dict[FakeConsumer, tuple[str, ...]] = {}
        self._balanced = balanced
        self._idle_polls = idle_polls
        self._idle = 0
        self._created = 0

    def consumer(self, config: Mapping[str, Any]) -> FakeConsumer:
        consumer = FakeConsumer(self, config, f"consumer-{len(self.consumers) + 1}")
        self.consumers.append(consumer)
        return consumer

    def producer(self, config: Mapping[str, Any]) -> FakeProducer:
        producer = FakeProducer(self, config, f"producer-{len(self.producers) + 1}")
        self.producers.append(producer)
        return producer

    def admin(self, config: Mapping[str, Any]) -> FakeAdmin:
        return FakeAdmin(self)

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> FakeTopic:
        """`config` are settings of a topic by their names, as the broker takes them."""
        settings = dict(config or {})
        self._created += 1
        topic = self.topics[name] = FakeTopic(
            name,
            [],
            int(settings.pop("max.message.bytes", 1_048_588)),
            retention_ms=int(settings.pop("retention.ms", 604_800_000)),
            timestamp_type=settings.pop("message.timestamp.type", "CreateTime"),
            cleanup_policy=settings.pop("cleanup.policy", "delete"),
            number=self._created,
        )
        assert not settings, f"the fake has no {settings}"
        self.add_partitions(name, partitions)
        return topic

    def delete_topic(self, name: str) -> None:
        """Those who are subscribed to it learn of it, and have its partitions until a rebalance."""
        del self.topics[name]
        error = KafkaError(
            KafkaError.UNKNOWN_TOPIC_OR_PART,
            f"Subscribed topic not available: {name}: Broker: Unknown topic or partition",
        )
        for consumer, topics in self._subscriptions.items():
            if name in topics:
                consumer.fail(error)

    def recreate_topic(self, name: str) -> None:
        """Deleted and created again before anybody has looked; with it go the groups' offsets.

        On a cluster that has failed over: its leader epochs begin at 0 again.
        """
        count = len(self.topics.pop(name).partitions)
        for committed in self._groups.values():
            for number in range(count):
                committed.pop((name, number), None)
        for log in self.create_topic(name, count).partitions:
            log.is_fenced = True

    def add_partitions(self, topic: str, count: int) -> None:
        """`count` more. Nobody has them until they are assigned."""
        found = self.topics[topic]
        broker_ms = self.broker_ms if found.timestamp_type == "LogAppendTime" else None
        found.partitions += [PartitionLog(broker_ms=broker_ms) for _ in range(count)]

    def broker_ms(self) -> int:
        """The time by the broker's clock, which may be off."""
        return self.clock.utc_ms() + round(self.faults.broker_ahead_s * 1000)

    def append(
        self,
        topic: str,
        partition: int,
        value: bytes | None = b"",
        key: bytes | None = None,
        headers: Headers | None = None,
        *,
        gap: int = 0,
    ) -> int:
        """The offset of the new record; the `gap` offsets before it hold nothing."""
        log = self.topics[topic].partitions[partition]
        return log.append(value, key, headers, self.clock.utc_ms(), gap)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        self.topics[topic].partitions[partition].delete_before(before)

    def truncate(self, topic: str, partition: int, end: int) -> None:
        """A broker has lost the end of its log, as after a power failure."""
        self.topics[topic].partitions[partition].truncate(end)

    def corrupt(self, partition: Partition, first: int, last: int, *, repeats: bool) -> None:
        """These offsets are one batch, and its checksum is wrong (`check.crcs=true`)."""
        topic, number = partition
        batch = CorruptBatch(first, last, repeats)
        self.topics[topic].partitions[number].corrupt.append(batch)

    def repair(self, partition: Partition) -> None:
        """A sound replica is the leader now."""
        self.topics[partition[0]].partitions[partition[1]].corrupt.clear()

    def log_of(self, partition: Partition) -> PartitionLog | None:
        topic = self.topics.get(partition[0])
        if topic is None or not 0 <= partition[1] < len(topic.partitions):
            return None
        return topic.partitions[partition[1]]

    @property
    def groups(self) -> list[str]:
        """The names of those that have committed, or were looked at."""
        return [*self._groups]

    def group(self, name: str) -> dict[Partition, int]:
        """What is committed: a dictionary that tests may change."""
        return self._groups.setdefault(name, {})

    def notes(self, name: str) -> dict[Partition, str]:
        """The metadata of the last commits that had some: a dictionary that tests may change."""
        return self._notes.setdefault(name, {})

    def leader_epochs(self, group: str) -> dict[Partition, int]:
        """The leader epochs of the last commits that had some."""
        return self._leader_epochs.setdefault(group, {})

    def store(self, group: str, items: Iterable[TopicPartition]) -> None:
        """Takes commits: each replaces the offset, and what was beside it."""
        for item in items:
            key = item.topic, item.partition
            self.group(group)[key] = item.offset
            self.notes(group).pop(key, None)
            if item.metadata:
                self.notes(group)[key] = item.metadata
            self.leader_epochs(group).pop(key, None)
            if item.leader_epoch is not None:
                self.leader_epochs(group)[key] = item.leader_epoch

    def assign(
        self, consumer: FakeConsumer, partitions: Iterable[Partition], *, after: int = 0
    ) -> None:
        """The member shall have exactly these: callbacks in its next poll or consume.

        `after` so many more messages at most, so in the middle of a `consume` if it is to be.
        """
        wanted = tuple(partitions)
        consumer.membership.retarget(wanted, after)
        for other in self._others(consumer):
            other.membership.taken_by_others.update(wanted)

    def revoke(self, consumer: FakeConsumer, *, after: int = 0) -> None:
        """Everything is taken in good order, and nothing given until the next `assign`."""
        consumer.membership.withdraw("revoke", after)

    def lose(self, consumer: FakeConsumer, *, after: int = 0) -> None:
        """The member is out, and others may have its partitions before it knows.

        With `faults.lost_as_revoked` it is notified of a revoke (librdkafka #5604).
        """
        reported: Kind = "revoke" if self.faults.lost_as_revoked else "lost"
        given = (item for other in self._others(consumer) for item in other.membership.target)
        consumer.membership.taken_by_others = set(given)
        consumer.membership.withdraw("lost", after, reported=reported)

    def call_back_empty(self, consumer: FakeConsumer, kind: Kind = "revoke") -> None:
        """A rebalance that changes nothing calls back with no partition at all.

        With an eager assignment only a member that has nothing sees that.
        """
        consumer.membership.change_nothing(kind)

    def fence(self, consumer: FakeConsumer, *, rejoins: bool = False) -> None:
        """`rejoins`: its client, polled on, is given what it had (measured)."""
        consumer.fence(rejoins=rejoins)

    def blind(self, consumer: FakeConsumer) -> None:
        """Its handle sees no broker any more, says nothing of it, and never will see one again."""
        consumer.blind = True

    def take_name(self, name: str, for_s: float) -> None:
        """A member of this `group.instance.id` was killed, and its session lasts so long still."""
        self.names_taken_until_s[name] = self.clock.now_s() + for_s

    def refuse(self, consumer: FakeConsumer) -> None:
        """Out, it forgot to join again, and never will: fatal, and it is notified of both."""
        consumer.refuse()
        self.lose(consumer)

    def move_on(self, consumer: FakeConsumer) -> None:
        """Others came or went: the group has a new generation, and this member is not called."""
        consumer.membership.generation += 1

    def rebalance(self, group: str) -> None:
        """Share out what the group's members are subscribed to, in turn."""
        members = [one for one in self._subscriptions if one.group == group and not one.closed]
        shares: dict[FakeConsumer, list[Partition]] = {member: [] for member in members}
        topics = sorted({topic for member in members for topic in self._subscriptions[member]})
        for topic in topics:
            readers = [member for member in members if topic in self._subscriptions[member]]
            count = len(self.topics[topic].partitions) if topic in self.topics else 0
            for number in range(count):
                shares[readers[number % len(readers)]].append((topic, number))
        for member, share in shares.items():
            self.assign(member, share)

    def is_free(self, partitions: Iterable[Partition], consumer: FakeConsumer) -> bool:
        """Whether no other member that the group counts on still has one of them."""
        return not any(
            other.has(partition)
            for other in self._others(consumer)
            if self.is_member(other) and not other.membership.is_lost()
            for partition in partitions
        )

    def _others(self, consumer: FakeConsumer) -> list[FakeConsumer]:
        return [
            other
            for other in self.consumers
            if other is not consumer and other.group == consumer.group and not other.closed
        ]

    def joined(self, consumer: FakeConsumer, topics: Iterable[str]) -> None:
        self._subscriptions[consumer] = tuple(topics)
        if self._balanced:
            self.rebalance(consumer.group)

    def left(self, consumer: FakeConsumer) -> None:
        if self._subscriptions.pop(consumer, None) is not None and self._balanced:
            self.rebalance(consumer.group)

    def is_member(self, consumer: FakeConsumer) -> bool:
        return consumer in self._subscriptions

    def check_member(self, membership: bytes) -> tuple[str, int | None]:
        """The group that a transaction commits for, and why it may not, if so.

        Who names no member is not refused; nor who names a living one, whatever is committed.
        """
        group, member_id, generation = membership.decode().rsplit("/", 2)
        if not member_id:
            return group, None
        named = [one for one in self.consumers if one.has_id(member_id)]
        if not named:
            return group, KafkaError.UNKNOWN_MEMBER_ID
        current = str(named[0].membership.generation)
        return group, None if generation == current else KafkaError.ILLEGAL_GENERATION

    def throw_out(self, consumer: FakeConsumer) -> None:
        """Lost, then assigned again what nobody else has been given meanwhile.

        The member learns of the error first, and of the loss in a later poll (measured).
        """
        given = {item for one in self._others(consumer) for item in one.membership.target}
        again = [item for item in consumer.membership.target if item not in given]
        self.lose(consumer, after=1)
        self.assign(consumer, again)

    def wait_for_brokers(self, at_most_s: float) -> None:
        """While they are down, and no longer than that."""
        give_up_at_s = self.clock.now_s() + at_most_s
        while self.faults.brokers_down and self.clock.now_s() < give_up_at_s:
            self.clock.wait(give_up_at_s)

    def require_brokers(self, timeout_s: float | None, *, blind: bool = False) -> None:
        """Where they are down, or not seen: the timeout passes, then the refusal.

        A millisecond counts for nothing: who takes no more only looks.
        """
        if self.faults.brokers_down or blind:
            waits_s = timeout_s if timeout_s is not None and timeout_s > 0 else 60.0
            self.clock.advance(waits_s if waits_s > 0.001 else 0.0)
            text = "Failed to get metadata: Local: Broker transport failure"
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, text))

    def metadata(self, topic: str | None) -> ClusterMetadata:
        """As `list_topics` gives it; a missing topic is there with an error."""
        names = self.topics if topic is None else (topic,)
        return described({name: self.topics.get(name) for name in names})

    def note(self, client: str, call: str, arguments: object) -> None:
        self.log.append((self.clock.now_s(), client, call, arguments))

    def note_poll(self, *, progress: bool) -> None:
        """Count polls in which nothing came, and raise where the test would go round for ever."""
        if self._idle > self._idle_polls or not progress:
            self._idle += 1
        else:
            self._idle = 0
        if self._idle > self._idle_polls:
            raise NothingCanHappenError(f"{self._idle_polls} polls in a row brought nothing")
