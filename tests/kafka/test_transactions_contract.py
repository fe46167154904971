"""The fake Kafka's transactions behave as the real one's: both pass the same laws."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # exported by import only

from tests.kafka.test_kafka_contract import Laws, Member, World
from tests.patience import PATIENCE_S

PROTOCOLS = {
    "eager": {},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
}

_numbers = itertools.count(1)


class Writer:
    """A transactional producer, initialised."""

    def __init__(self, world: World, topic: str, name: str | None = None, **config: Any) -> None:
        self.topic = topic
        self.name = name or f"writer-{next(_numbers)}"
        keys = {key.replace("_", "."): value for key, value in config.items()}
        short = {"transaction.timeout.ms": 10_000, "retry.backoff.ms": 10, "linger.ms": 0}
        self.client = world.producer({"transactional.id": self.name, **short, **keys})
        self.client.init_transactions(20)

    def write(self, count: int = 1) -> Writer:
        """Begun, and so many records written to partition 1."""
        self.client.begin_transaction()
        reported: list[Any] = []
        for _ in range(count):
            self.client.produce(
                self.topic, b"v", partition=1, on_delivery=lambda *seen: reported.append(seen)
            )
        while len(reported) < count:
            self.client.poll(1)
        assert [None] * count == [error for error, _ in reported]
        return self

    def attempt(self, value: bytes) -> str | None:
        """One transaction of one record; why it was aborted, or None where it is committed."""
        reported: list[Any] = []
        self.client.begin_transaction()
        self.client.produce(
            self.topic, value, partition=1, on_delivery=lambda *seen: reported.append(seen)
        )
        while not reported:
            self.client.poll(1)
        ((error, _),) = reported
        _ = self.commit() if error is None else self.abort()
        return None if error is None else str(error.name())

    def add_offset(self, place: TopicPartition, membership: object) -> Writer:
        self.client.send_offsets_to_transaction([place], membership, 20)
        return self

    def commit(self) -> Writer:
        self.client.commit_transaction(20)
        return self

    def abort(self) -> Writer:
        self.client.abort_transaction(20)
        return self


def error_of(call: Callable[[], object]) -> tuple[str, bool, bool]:
    """The code's name, whether it is fatal, and whether the transaction must be aborted."""
    with pytest.raises(KafkaException) as caught:
        call()
    error = caught.value.args[0]
    return error.name(), error.fatal(), error.txn_requires_abort()


class TestContract(Laws):
    """The laws."""

    def test_commit(self, world: World, topic: str, member: Callable[..., Member]) -> None:
        """Records and offset are there after the commit; a marker takes an offset, too."""
        one = member().subscribe().at_end(2)
        writer = Writer(world, topic).write(2)
        writer.add_offset(one.place(3), one.client.consumer_group_metadata()).commit()
        one.until(lambda: one.read(1) == [0, 1])
        one.until(lambda: (1, 3) in one.ends)
        assert 3 == _committed(one)
        writer.write().commit()
        one.until(lambda: one.read(1) == [0, 1, 3])

    def test_abort(self, world: World, topic: str, member: Callable[..., Member]) -> None:
        """Neither records nor offset are there after an abort, and their place stays empty."""
        one = member().subscribe().at_end(2)
        one.client.commit(offsets=[one.place(1)], asynchronous=False)
        writer = Writer(world, topic).write(2)
        writer.add_offset(one.place(3), one.client.consumer_group_metadata()).abort()
        writer.write().commit()
        one.until(lambda: one.read(1) == [3])
        assert 1 == _committed(one)

    def test_open(self, world: World, topic: str, member: Callable[..., Member]) -> None:
        """What is not decided is not read, nor what comes after it; the end is before it."""
        one = member().subscribe().at_end(2)
        first, second = Writer(world, topic).write(), Writer(world, topic).write().commit()
        assert [] == one.quiet().read(1)
        first.commit()
        one.until(lambda: one.read(1) == [0, 1])
        second.write().abort()

    @pytest.mark.parametrize(
        ("level", "end"),
        [(IsolationLevel.READ_COMMITTED, 1), (IsolationLevel.READ_UNCOMMITTED, 3)],
    )
    def test_end_while_open(
        self, world: World, topic: str, level: IsolationLevel, end: int
    ) -> None:
        """The end that `list_offsets` tells is before what is not decided, or after it."""
        world.append(topic, 1, [b"v"])
        writer = Writer(world, topic).write(2)
        place = TopicPartition(topic, 1)
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the client has no types for it
        admin = world.admin()  # kept: collecting it cancels the question
        answers = admin.list_offsets({place: latest}, isolation_level=level)
        assert end == answers[place].result(PATIENCE_S).offset
        writer.abort()

    def test_open_offset(self, world: World, topic: str, member: Callable[..., Member]) -> None:
        """What is committed is not told while a transaction may commit more."""
        one = member().subscribe().at_end(2)
        writer = Writer(world, topic).write()
        writer.add_offset(one.place(3), one.client.consumer_group_metadata())
        assert "_TIMED_OUT" == error_of(lambda: one.client.committed([one.place()], 0.3))[0]
        writer.commit()
        assert 3 == _committed(one)

    def test_lower_commit(self, world: World, topic: str, member: Callable[..., Member]) -> None:
        """Of two commits the broker keeps the one that arrived last, not the one decided last."""
        one = member().subscribe().at_end(2)
        membership = one.client.consumer_group_metadata()
        writer = Writer(world, topic).write().add_offset(one.place(3), membership)
        one.client.commit(offsets=[one.place(1)], asynchronous=False)
        writer.commit()
        assert 1 == _committed(one)
        writer.write().add_offset(one.place(3), membership).commit()
        assert 3 == _committed(one)

    def test_fenced(self, world: World, topic: str, member: Callable[..., Member]) -> None:
        """A newer producer of the same id ends what the older left open, and the older for good."""
        one = member().subscribe().at_end(2)
        older = Writer(world, topic).write()
        newer = Writer(world, topic, older.name)
        membership = one.client.consumer_group_metadata()
        refused = error_of(lambda: older.add_offset(one.place(3), membership))
        assert ("_FENCED", True) == refused[:2]
        assert ("_FENCED", True) == error_of(older.commit)[:2]
        newer.write().commit()
        one.until(lambda: one.read(1) == [2])

    def test_times_out(self, world: World, topic: str, member: Callable[..., Member]) -> None:
        """A transaction that lasts too long is aborted, and its producer cannot commit it."""
        one = member().subscribe().at_end(2)
        # Enough for a slow machine to come as far as the wait.
        writer = Writer(world, topic, transaction_timeout_ms=5000)
        membership = one.client.consumer_group_metadata()
        writer.write().add_offset(one.place(3), membership)
        one.until(lambda: (1, 2) in one.ends)
        assert "" != error_of(writer.commit)[0]
        newer = Writer(world, topic, writer.name)
        newer.write().commit()
        one.until(lambda: one.read(1) == [2])
        with pytest.raises(AssertionError):
            assert 3 == _committed(one)

    def test_not_a_member(self, world: World, topic: str, member: Callable[..., Member]) -> None:
        """Who has left the group is refused; the transaction is to be aborted, the next works."""
        one = member().subscribe().at_end(2)
        gone = member().subscribe()
        gone.until(lambda: gone.owned() and one.owned() and len(gone.owned()) == 1, one)
        membership = gone.client.consumer_group_metadata()
        gone.client.close()
        one.until(lambda: len(one.owned()) == 2)
        writer = Writer(world, topic).write()
        refused = error_of(lambda: writer.add_offset(one.place(3), membership))
        assert ("UNKNOWN_MEMBER_ID", False, True) == refused
        writer.abort()
        membership = one.client.consumer_group_metadata()
        writer.write().add_offset(one.place(3), membership).commit()
        assert 3 == _committed(one)

    @pytest.mark.parametrize(
        "config",
        PROTOCOLS.values(),
        ids=PROTOCOLS.keys(),
    )
    def test_outdated(
        self, world: World, topic: str, member: Callable[..., Member], config: dict[str, str]
    ) -> None:
        """Once the group has moved on, a member's former generation is refused, its present not."""
        one = member(**config).subscribe().at_end(2)
        before = one.client.consumer_group_metadata()
        two = member(**config).subscribe()
        two.until(lambda: len(two.owned()) == 1 and len(one.owned()) == 1, one)
        writer = Writer(world, topic)
        refused = _refused_until_outdated(writer, one, two, before)
        assert ("ILLEGAL_GENERATION", False, True) == refused
        writer.write().add_offset(one.place(3), one.client.consumer_group_metadata()).commit()
        assert 3 == _committed(one)

    def test_not_ours(self, world: World, topic: str, member: Callable[..., Member]) -> None:
        """A living member's commit is taken for a partition that is not its own."""
        one, two = member().subscribe().joined(), member().subscribe()
        two.until(lambda: len(two.owned()) == 1 and len(one.owned()) == 1, one)
        other = one if 0 not in one.owned() else two
        writer = Writer(world, topic).write()
        writer.add_offset(one.place(3), other.client.consumer_group_metadata()).commit()
        assert 3 == _committed(one)

    def test_no_member(self, world: World, topic: str, member: Callable[..., Member]) -> None:
        """A commit that names no member is taken from anyone, while the group has members."""
        one, stranger = member().subscribe().joined(), member()
        assert stranger.client.memberid() is None
        writer = Writer(world, topic).write()
        writer.add_offset(one.place(3), stranger.client.consumer_group_metadata()).commit()
        assert 3 == _committed(one)

    def test_order_of_calls(self, world: World, topic: str) -> None:
        """Nothing before the initialisation, nothing outside of a transaction, none in another."""
        client = world.producer({"transactional.id": f"writer-{next(_numbers)}"})
        early = error_of(client.begin_transaction)[0]
        client.init_transactions(20)
        again = error_of(lambda: client.init_transactions(20))[0]
        outside = error_of(lambda: client.produce(topic, b"v"))[0]
        none = error_of(lambda: client.commit_transaction(20))[0]
        client.begin_transaction()
        twice = error_of(client.begin_transaction)[0]
        client.abort_transaction(20)
        assert ["_STATE"] * 5 == [early, again, outside, none, twice]

    def test_no_id(self, world: World) -> None:
        """A producer without a transactional.id has no transactions."""
        assert "_NOT_CONFIGURED" == error_of(lambda: world.producer({}).init_transactions(1))[0]

    def test_failed_delivery(self, world: World) -> None:
        """A record that is not delivered has its transaction aborted, not committed."""
        writer = Writer(world, "not-there", message_timeout_ms=1000, allow_auto_create_topics=False)
        writer.client.begin_transaction()
        writer.client.produce("not-there", b"v")
        name, fatal, abortable = error_of(writer.commit)
        assert (False, True) == (fatal, abortable), name
        writer.abort()

    def test_after_a_record_that_is_too_large(self, world: World, topic: str) -> None:
        """librdkafka purges the next one that the topic would take, and goes on after that."""
        large = b"v" * 1_100_000
        writer = Writer(world, topic, message_max_bytes=4_000_000)
        codes = [writer.attempt(value) for value in (b"v", large, large, b"v", b"v")]
        too_large = "MSG_SIZE_TOO_LARGE"
        assert [None, too_large, too_large, "_PURGE_QUEUE", None] == codes


def _committed(member: Member) -> int:
    """Right after a commit the marker may still be on its way."""
    (item,) = member.client.committed([member.place()], 10)
    return int(item.offset)


def _refused_until_outdated(
    writer: Writer, one: Member, two: Member, membership: object
) -> tuple[str, bool, bool]:
    """How a commit for this membership is refused, once it is."""
    refused: list[tuple[str, bool, bool]] = []

    def outdated() -> bool:
        writer.write()
        try:
            writer.add_offset(one.place(2), membership)
        except KafkaException as raised:
            error = raised.args[0]
            refused.append((error.name(), error.fatal(), error.txn_requires_abort()))
        writer.abort()
        return bool(refused)

    one.until(outdated, two)
    return refused[0]
