"""Do the fake Kafka's clock, commands and faults do what they say? (The rest: the contract.)"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from linear_retry.scope import Partition
from tests.fake.clock import NothingCanHappenError, VirtualClock
from tests.fake.cluster import FakeKafka
from tests.fake.consumer import FakeConsumer

COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}
P0: Partition = ("orders", 0)
P1: Partition = ("orders", 1)


@pytest.fixture
def fake() -> FakeKafka:
    fake = FakeKafka()
    fake.create_topic("orders", 2)
    for number in range(5):
        fake.append("orders", 0, str(number).encode())
    return fake


def joined(fake: FakeKafka, *partitions: Partition, **config: Any) -> FakeConsumer:
    settings = {"group.id": "group", "auto.offset.reset": "earliest"}
    consumer = fake.consumer(settings | _keys(config))
    consumer.subscribe(["orders"])
    fake.assign(consumer, partitions)
    return consumer


def _keys(config: dict[str, Any]) -> dict[str, Any]:
    callbacks = ("error_cb", "on_commit")
    return {k if k in callbacks else k.replace("_", "."): v for k, v in config.items()}


def place(partition: Partition, offset: int = OFFSET_INVALID) -> TopicPartition:
    return TopicPartition(*partition, offset)


def noting(codes: list[int | None]) -> Callable[[KafkaError | None, Message], None]:
    """A delivery callback that keeps the error's code."""
    return lambda error, _: codes.append(error.code() if error else None)


def offsets(consumer: FakeConsumer, count: int = 100) -> list[int | None]:
    return [message.offset() for message in consumer.consume(count, 0)]


def calls(fake: FakeKafka, *names: str) -> list[tuple[str, Any]]:
    return [(call, arguments) for _, _, call, arguments in fake.log if call in names]


class TestClock:
    def test_poll_moves_time(self, fake: FakeKafka) -> None:
        """An empty poll takes its whole timeout in virtual time, and a poll of 0 none."""
        consumer = joined(fake)
        started_s = fake.clock.now_s()
        consumer.poll(0)
        assert started_s == fake.clock.now_s()
        consumer.poll(1.5)
        assert started_s + 1.5 == fake.clock.now_s()

    def test_poll_stops_at_actions(self, fake: FakeKafka) -> None:
        """A poll returns at the moment at which a scheduled message arrives."""
        consumer = joined(fake, P1)
        started_s = fake.clock.now_s()
        fake.clock.at(0.4, lambda: fake.append("orders", 1))
        assert consumer.poll(1.0) is not None
        assert started_s + 0.4 == fake.clock.now_s()

    def test_actions_in_order(self) -> None:
        """What is scheduled runs in the order of its times, each at its own time."""
        clock, seen = VirtualClock(), []
        started_ms = clock.utc_ms()
        for seconds in (3.0, 1.0, 2.0):
            clock.at(seconds, lambda: seen.append(clock.utc_ms() - started_ms))
        clock.advance(10)
        assert [1000, 2000, 3000] == seen

    def test_suspend(self) -> None:
        """Suspended time passes for the clock and is known as such."""
        clock = VirtualClock()
        started_s = clock.now_s()
        clock.suspend(60)
        assert (60.0, 60.0) == (clock.now_s() - started_s, clock.suspended_s())

    def test_endless_wait(self, fake: FakeKafka) -> None:
        """Waiting without end for nothing is an error, not a hanging test."""
        with pytest.raises(NothingCanHappenError):
            joined(fake).poll()

    def test_busy_loop(self) -> None:
        """A loop that polls without waiting, for nothing, is ended, and stays ended."""
        fake = FakeKafka(idle_polls=100)
        consumer = joined(fake)
        for _ in range(100):
            consumer.poll(0)
        with pytest.raises(NothingCanHappenError):
            consumer.poll(0)
        with pytest.raises(NothingCanHappenError):
            consumer.poll(0)


class TestGroup:
    def test_eager_rebalance(self, fake: FakeKafka) -> None:
        """Eager: everything is revoked, then everything assigned."""
        consumer = joined(fake, P0, P1)
        consumer.poll(0)
        fake.assign(consumer, [P0])
        consumer.poll(0)
        told = calls(fake, "on_assign", "on_revoke")
        assert [("on_assign", (P0, P1)), ("on_revoke", (P0, P1)), ("on_assign", (P0,))] == told

    def test_incremental_rebalance(self, fake: FakeKafka) -> None:
        """Cooperative: only the difference, an empty assignment included."""
        consumer = joined(fake, P0, P1, **COOPERATIVE)
        consumer.poll(0)
        fake.assign(consumer, [P0])
        consumer.poll(0)
        told = calls(fake, "on_assign", "on_revoke")
        assert [("on_assign", (P0, P1)), ("on_revoke", (P1,)), ("on_assign", ())] == told

    def test_rebalance_inside_consume(self, fake: FakeKafka) -> None:
        """`after`: a rebalance in the middle of a `consume`, which takes back what it had taken."""
        consumer = joined(fake, P0)
        consumer.poll(0)
        fake.assign(consumer, [P0], after=2)
        assert [0, 1, 2, 3, 4] == offsets(consumer)
        assert 2 == len(calls(fake, "on_assign"))

    def test_lost(self, fake: FakeKafka) -> None:
        """A member that is out is told of a loss, later, and others need not wait for it."""
        zombie, heir = joined(fake, P0), joined(fake)
        zombie.poll(0)
        fake.lose(zombie)
        fake.assign(heir, [P0])
        heir.poll(0)
        assert (True, True) == (zombie.has(P0), heir.has(P0))
        zombie.poll(0)
        assert (False, ("on_lost", (P0,))) == (zombie.has(P0), calls(fake, "on_lost")[-1])

    def test_lost_told_as_revoked(self, fake: FakeKafka) -> None:
        """The same, told as a revoke (librdkafka #5604)."""
        fake.faults.lost_as_revoked = True
        consumer = joined(fake, P0)
        consumer.poll(0)
        fake.lose(consumer)
        consumer.poll(0)
        assert [("on_revoke", (P0,))] == calls(fake, "on_revoke", "on_lost")

    def test_waits_for_revoke(self, fake: FakeKafka) -> None:
        """Nobody is assigned what another living member has not given back yet."""
        one, two = joined(fake, P0), joined(fake)
        one.poll(0)
        fake.revoke(one)
        fake.assign(two, [P0])
        two.poll(0)
        assert not two.has(P0)
        one.poll(0)
        two.poll(0)
        assert two.has(P0)

    def test_max_poll_interval(self, fake: FakeKafka) -> None:
        """Who polls too late is told so, loses everything, and is assigned it again."""
        consumer = joined(fake, P0, max_poll_interval_ms=10_000)
        consumer.poll(0)
        fake.clock.advance(10.5)
        consumer.poll(0)
        assert [] == calls(fake, "on_lost")
        consumer.poll(0)
        assert [("on_lost", (P0,)), ("on_assign", (P0,))] == calls(fake, "on_lost", "on_assign")[1:]

    def test_fenced(self, fake: FakeKafka) -> None:
        """A fenced member hears it from error_cb and from poll, and cannot commit."""
        heard: list[KafkaError] = []
        consumer = joined(fake, P0, error_cb=heard.append)
        consumer.poll(0)
        fake.fence(consumer)
        message = consumer.poll(0)
        assert message is not None
        with pytest.raises(KafkaException):
            consumer.commit(offsets=[place(P0, 1)], asynchronous=False)
        assert [(KafkaError._FATAL, False)] == [(one.code(), one.fatal()) for one in heard]


class TestFaults:
    def test_leak(self, fake: FakeKafka) -> None:
        """A paused partition delivers as many messages as the leak says."""
        consumer = joined(fake, P0)
        consumer.poll(0)
        consumer.pause([place(P0)])
        fake.faults.leak(P0, 2)
        assert [1, 2] == offsets(consumer)

    def test_ignored_pause(self, fake: FakeKafka) -> None:
        """A pause is dropped, and the next one works."""
        consumer = joined(fake, P0)
        consumer.poll(0)
        fake.faults.ignore_pause()
        consumer.pause([place(P0)])
        assert [1] == offsets(consumer, 1)
        consumer.pause([place(P0)])
        assert [] == offsets(consumer)

    @pytest.mark.parametrize("config", [{}, COOPERATIVE])
    def test_dead_partition(self, fake: FakeKafka, config: dict[str, str]) -> None:
        """Resume and seek do not revive a dead partition; assigning it anew does."""
        consumer = joined(fake, P0, **config)
        consumer.poll(0)
        fake.faults.kill(P0)
        consumer.pause([place(P0)])
        consumer.resume([place(P0)])
        consumer.seek(place(P0, 1))
        assert [] == offsets(consumer)
        assert [OFFSET_INVALID] == [item.offset for item in consumer.position([place(P0)])]
        if config:
            consumer.incremental_unassign([place(P0)])
            consumer.incremental_assign([place(P0, 1)])
        else:
            consumer.assign([place(P0, 1)])
        assert [1, 2, 3, 4] == offsets(consumer)

    def test_late_resume(self, fake: FakeKafka) -> None:
        """A resumed partition delivers later, unless it is sought after the resume."""
        fake.faults.late_resume_s = 0.8
        consumer = joined(fake, P0)
        consumer.poll(0)
        started_s = fake.clock.now_s()
        consumer.pause([place(P0)])
        consumer.resume([place(P0)])
        consumer.poll(5)
        assert started_s + 0.8 == fake.clock.now_s()
        consumer.pause([place(P0)])
        consumer.resume([place(P0)])
        consumer.seek(place(P0, 4))
        assert [4] == offsets(consumer)

    def test_jump(self, fake: FakeKafka) -> None:
        """The first message after a seek is a later one, once."""
        consumer = joined(fake, P0)
        consumer.poll(0)
        fake.faults.jump(P0, 3)
        consumer.seek(place(P0, 1))
        assert [3] == offsets(consumer, 1)
        consumer.seek(place(P0, 1))
        assert [1, 2, 3, 4] == offsets(consumer)

    def test_stale(self, fake: FakeKafka) -> None:
        """The first message after a seek is the one before; then it goes on as sought."""
        consumer = joined(fake, P0)
        consumer.poll(0)
        fake.faults.stale(P0)
        consumer.seek(place(P0, 3))
        assert [2, 3, 4] == offsets(consumer)

    def test_failing_seek(self, fake: FakeKafka) -> None:
        """A seek fails as often as told, and does nothing then."""
        consumer = joined(fake, P0)
        consumer.poll(0)
        fake.faults.fail_seek(KafkaError._STATE)
        with pytest.raises(KafkaException):
            consumer.seek(place(P0, 0))
        assert [1, 2, 3, 4] == offsets(consumer)

    def test_failing_commit(self, fake: FakeKafka) -> None:
        """A failed commit stores nothing."""
        consumer = joined(fake, P0)
        consumer.poll(0)
        fake.faults.fail_commit(KafkaError.REBALANCE_IN_PROGRESS)
        with pytest.raises(KafkaException):
            consumer.commit(offsets=[place(P0, 1)], asynchronous=False)
        assert {} == fake.group("group")

    def test_raising_poll(self, fake: FakeKafka) -> None:
        """What a poll had taken when it raised is gone."""
        consumer = joined(fake, P0)
        fake.faults.raise_in_poll(RuntimeError("in poll"))
        with pytest.raises(RuntimeError, match="in poll"):
            consumer.poll(0)
        assert [1, 2, 3, 4] == offsets(consumer)

    def test_gaps(self, fake: FakeKafka) -> None:
        """Offsets may have gaps, and markers after the last message move the end."""
        fake.append("orders", 0, gap=3)
        fake.topics["orders"].partitions[0].mark(2)
        consumer = joined(fake, P0)
        assert [0, 1, 2, 3, 4, 8] == offsets(consumer)
        assert (0, 11) == consumer.get_watermark_offsets(place(P0))

    def test_brokers_down(self, fake: FakeKafka) -> None:
        """Nothing comes and nothing is committed while the brokers are down."""
        consumer = joined(fake, P0)
        consumer.poll(0)
        fake.faults.brokers_down = True
        assert [] == offsets(consumer)
        with pytest.raises(KafkaException):
            consumer.commit(offsets=[place(P0, 1)], asynchronous=False)
        fake.faults.clear()
        assert [1, 2, 3, 4] == offsets(consumer)


class TestProducer:
    def test_report_takes_time(self, fake: FakeKafka) -> None:
        """The report, and the record, come when the delivery's time has passed."""
        fake.faults.delivery_s = 0.25
        producer, reports = fake.producer({}), []
        producer.produce("orders", b"v", partition=1, on_delivery=lambda *one: reports.append(one))
        assert 0 == producer.poll(0.2)
        assert 0 == fake.topics["orders"].partitions[1].end
        assert 1 == producer.poll(0.2)
        assert 1 == fake.topics["orders"].partitions[1].end

    @pytest.mark.parametrize(
        ("topic", "code"),
        [("orders", KafkaError._MSG_TIMED_OUT), ("not-there", KafkaError._UNKNOWN_TOPIC)],
    )
    def test_failed_delivery(self, fake: FakeKafka, topic: str, code: int) -> None:
        """A failed delivery is only told in the report; a missing topic takes 30 seconds."""
        fake.faults.fail_delivery(KafkaError._MSG_TIMED_OUT)
        producer, codes = fake.producer({}), list[int | None]()
        producer.produce(topic, b"v", on_delivery=noting(codes))
        producer.flush(31)
        assert [code] == codes

    def test_ambiguous_timeout(self, fake: FakeKafka) -> None:
        """A delivery slower than its timeout is reported as failed, and the record is there."""
        fake.faults.delivery_s = 20
        producer, codes = fake.producer({"message.timeout.ms": 10_000}), list[int | None]()
        producer.produce("orders", b"v", partition=1, on_delivery=noting(codes))
        producer.flush(30)
        assert [KafkaError._MSG_TIMED_OUT] == codes
        assert 1 == fake.topics["orders"].partitions[1].end

    def test_too_large_for_topic(self, fake: FakeKafka) -> None:
        """What passes the producer's limit and not the topic's fails in the report."""
        fake.create_topic("small", max_message_bytes=1000)
        producer, codes = fake.producer({}), list[int | None]()
        producer.produce("small", b"v" * 1000, on_delivery=noting(codes))
        producer.flush(1)
        assert [KafkaError.MSG_SIZE_TOO_LARGE] == codes

    def test_purge(self, fake: FakeKafka) -> None:
        """Purged records are reported so, and are not there."""
        fake.faults.delivery_s = 5
        producer, codes = fake.producer({}), list[int | None]()
        producer.produce("orders", b"v", on_delivery=noting(codes))
        producer.purge()
        assert 1 == producer.poll(10)
        assert [KafkaError._PURGE_QUEUE] == codes

    def test_raising_produce(self, fake: FakeKafka) -> None:
        """`produce` raises what it is told to, as often."""
        fake.faults.raise_in_produce(BufferError("Local: Queue full"))
        producer = fake.producer({})
        with pytest.raises(BufferError):
            producer.produce("orders", b"v")
        producer.produce("orders", b"v")
        assert 0 == producer.flush(1)
