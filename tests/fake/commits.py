"""Commits on the fake: whether they reach the broker, are accepted, and when they are answered."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from confluent_kafka import KafkaError, Message, TopicPartition

from tests.fake.membership import Membership

if TYPE_CHECKING:
    from tests.fake.cluster import FakeKafka

Answer: TypeAlias = tuple[KafkaError | None, list[TopicPartition]]
"""For the commit as a whole, and for each partition."""

_RETRY_S = 1.0


class Commits:
    """One consumer's commits. One connection: what was sent before arrives before.

    But for one that is retried: by then it is from another generation where the group has changed.
    """

    def __init__(
        self,
        fake: FakeKafka,
        group: str,
        membership: Membership,
        sees_no_broker: Callable[[], bool],
    ) -> None:
        self._fake = fake
        self._sees_no_broker = sees_no_broker
        self._group = group
        self._membership = membership
        self._under_way: deque[Callable[[], None]] = deque()
        self.fatal: KafkaError | None = None

    def now(self, items: list[TopicPartition]) -> Answer:
        """Sent and answered; with the brokers down it blocks first."""
        self.land()
        self._fake.wait_for_brokers(self._fake.faults.commit_blocks_s)
        return self._store(items, self._membership.lives)

    def later(self, items: list[TopicPartition], answer: Callable[[Answer], object]) -> None:
        """Sent; `answer` is called when the broker's has come."""
        if self._fake.faults.takes_commit_retry():
            generation = self._membership.generation
            self._fake.clock.at(_RETRY_S, lambda: answer(self._retried(items, generation)))
            return
        landed: list[Answer] = []
        life = self._membership.lives
        self._under_way.append(lambda: landed.append(self._store(items, life)))
        if not self._fake.faults.commits_land_late:
            self.land()

        def report() -> None:
            while not landed:
                self._under_way.popleft()()
            answer(landed[0])

        after_s = self._fake.faults.commit_answer_s
        if after_s is not None:
            self._fake.clock.at(after_s, report)
            self._fake.clock.run_due()

    def land(self) -> None:
        """All that is under way arrives."""
        while self._under_way:
            self._under_way.popleft()()

    def _retried(self, items: list[TopicPartition], generation: int) -> Answer:
        if self._membership.generation != generation:
            return KafkaError(KafkaError.ILLEGAL_GENERATION, "Commit failed: Broker"), items
        return self._store(items, self._membership.lives)

    def _store(self, items: list[TopicPartition], life: int) -> Answer:
        """`life` is that of the member which has sent it."""
        error = self.fatal or self._fenced_off(items, life)
        if error is None and self._sees_no_broker():
            text = "Commit failed: Local: Broker transport failure"
            error = KafkaError(KafkaError._TRANSPORT, text)
        return (error, items) if error is not None else _taken(self._fake, self._group, items)

    def _fenced_off(self, items: list[TopicPartition], life: int) -> KafkaError | None:
        """A member that the group counts out is refused, whatever its client knows.

        And for what it has sent by then, though it is in again: under another id.
        """
        unknown = KafkaError(KafkaError.UNKNOWN_MEMBER_ID, "Commit failed: Broker: Unknown member")
        if life != self._membership.lives:
            return unknown
        if not self._membership.is_lost():
            return None
        keys = [(item.topic, item.partition) for item in items]
        untaken = self._membership.taken_by_others.isdisjoint(keys)
        return None if self._fake.faults.zombies_commit and untaken else unknown


def offsets_of(
    message: Message | None, offsets: list[TopicPartition] | None
) -> list[TopicPartition]:
    """What `commit` is asked to commit: as given, or what comes after this message."""
    if message is None:
        return [] if offsets is None else list(offsets)
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return [TopicPartition(topic, partition, offset + 1)]


def _taken(fake: FakeKafka, group: str, items: list[TopicPartition]) -> Answer:
    """Not fenced per partition: a member may commit what is another's (measured)."""
    faults = fake.faults
    sent = [item for item in items if item.offset >= 0]
    if not sent:
        return KafkaError(KafkaError._NO_OFFSET, "Commit failed: Local: No offset stored"), items
    fault = faults.takes_commit_fault()
    if fault is not None and not fault.lands:
        return fault.error, items
    if any(fake.log_of((item.topic, item.partition)) is None for item in sent):
        code = KafkaError.UNKNOWN_TOPIC_OR_PART
        return KafkaError(code, "Commit failed: Broker: Unknown topic or partition"), items
    if any(len(item.metadata or "") > faults.longest_note for item in sent):
        code = KafkaError.OFFSET_METADATA_TOO_LARGE
        return KafkaError(code, "Commit failed: Broker: Offset metadata string too large"), items
    answers = [_answered(fake, item) for item in sent]
    done = [item for item in answers if item.error is None]
    fake.store(group, done)
    fake.transactions.overtake(group, [(item.topic, item.partition) for item in done])
    return (fault.error if fault else None), answers


class _Refused(TopicPartition):
    """One partition of an answered commit, with an error of its own."""

    error: Any = None


def _answered(fake: FakeKafka, item: TopicPartition) -> TopicPartition:
    error = fake.faults.takes_partition_commit_error((item.topic, item.partition))
    if error is None:
        return item
    refused = _Refused(item.topic, item.partition, item.offset)
    refused.error = error
    return refused
