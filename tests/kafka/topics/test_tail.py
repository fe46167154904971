"""A topic is read from a moment on, to its end and beyond, whatever happens to it."""

import time
from itertools import chain
from typing import Any

import pytest
from confluent_kafka import Producer

from linear_retry.errors import UnknownTopicError
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from linear_retry.kafka.topics.standalone_consumer import StandaloneConsumer
from linear_retry.kafka.topics.tail import TopicTail
from tests.conftest import TopicFactory
from tests.kafka_operations import KafkaOperations, wait_until
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka

_NOW_MS = time.time_ns() // 1_000_000


def _write(
    kafka: KafkaOperations, topic: str, values: dict[bytes, int], partition: int = 0
) -> None:
    """Each with its timestamp."""
    producer = Producer(kafka.client_settings())
    for value, at_ms in values.items():
        producer.produce(topic, value, partition=partition, timestamp=at_ms)
    assert 0 == producer.flush(PATIENCE_S)


def _backlog(tail: TopicTail) -> list[bytes | None]:
    return [record.value for record in chain.from_iterable(tail.backlog())]


class _Reader:
    """All that was read."""

    def __init__(self, following: TopicTail) -> None:
        self._following = following
        self.values: list[bytes | None] = []

    def has(self, *values: bytes) -> bool:
        self.values += [record.value for record in self._following.read(0.05)]
        return len(self.values) >= len(values)


@pytest.mark.broker
def test_from_a_moment_on(kafka: RealKafka, topic: TopicFactory) -> None:
    """What is older is not given, also where it lies behind what is younger, or a partition has
    nothing else; what comes later is, once, also what came before anybody followed."""
    name = topic(3)
    _write(kafka, name, {b"old": _NOW_MS - 9000, b"new": _NOW_MS, b"late": _NOW_MS - 8000})
    _write(kafka, name, {b"only old": _NOW_MS - 9000}, 1)
    tail = TopicTail(kafka.client_settings(), name, _NOW_MS - 5000)
    assert [b"new"] == _backlog(tail)
    _write(kafka, name, {b"meanwhile": _NOW_MS}, 1)
    with tail.follow() as following:
        reader = _Reader(following)
        wait_until(lambda: reader.has(b"meanwhile"), "what came meanwhile")
        _write(kafka, name, {b"then": _NOW_MS}, 2)
        wait_until(lambda: reader.has(b"meanwhile", b"then"), "what came then")
        assert ([b"meanwhile", b"then"], None) == (reader.values, following.trouble)


@pytest.mark.broker
def test_partitions_that_are_added(kafka: RealKafka, topic: TopicFactory) -> None:
    """They are read too, from their beginning."""
    name = topic()
    tail = TopicTail(kafka.client_settings(), name, 0, look_every_s=0.1)
    assert [] == _backlog(tail)
    with tail.follow() as following:
        kafka.add_partitions(name, 2)
        _write(kafka, name, {b"first": _NOW_MS}, 1)
        reader = _Reader(following)
        wait_until(lambda: reader.has(b"first"), "the new partition is read")


@pytest.mark.broker
def test_a_topic_that_is_recreated(kafka: RealKafka, topic: TopicFactory) -> None:
    """While it is gone that is reported; the new one is read from its beginning."""
    name = topic()
    _write(kafka, name, {b"old": _NOW_MS, b"older": _NOW_MS})
    tail = TopicTail(kafka.client_settings(), name, 0, look_every_s=0.1)
    assert [b"old", b"older"] == _backlog(tail)
    with tail.follow() as following:
        reader = _Reader(following)
        kafka.delete_topic(name)
        wait_until(lambda: reader.has() and following.trouble, "it is gone")
        kafka.create_topic(name)
        _write(kafka, name, {b"new": _NOW_MS})
        wait_until(lambda: reader.has(b"new"), "the new one is read")
        assert [b"new"] == reader.values


def test_brokers_that_are_away() -> None:
    """Reported while they are, and not any longer; nothing is missing, and nothing there twice."""
    with EmbeddedKafka() as kafka:
        kafka.create_topic("journal")
        kafka.produce("journal", [b"before"])
        tail = TopicTail(_quick(kafka), "journal", 0)
        assert [b"before"] == _backlog(tail)
        with tail.follow() as following:
            reader = _Reader(following)
            with kafka.down():
                wait_until(lambda: reader.has() and following.trouble, "they are away")
                assert kafka.bootstrap in (following.trouble or "")
            wait_until(lambda: reader.has() and not following.trouble, "they are back")
            kafka.produce("journal", [b"after"])
            wait_until(lambda: reader.has(b"after"), "what came after")
            assert [b"after"] == reader.values


def test_an_outage_is_one_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says "brokers are down", then "timed out": each text was told as another outage."""
    looks: list[str] = []
    look = StandaloneConsumer.partitions_now

    def counted(self: StandaloneConsumer, topic: str) -> tuple[int, ...]:
        looks.append(topic)
        return look(self, topic)

    monkeypatch.setattr(StandaloneConsumer, "partitions_now", counted)
    with EmbeddedKafka() as kafka:
        kafka.create_topic("journal")
        tail = TopicTail(_quick(kafka), "journal", 0)
        assert [] == _backlog(tail)
        with tail.follow() as following, kafka.down():
            reader, told = _Reader(following), set[str]()
            looks.clear()
            wait_until(lambda: reader.has() and following.trouble, "they are away")

            def has_looked() -> bool:
                reader.has()
                told.add(following.trouble or "")
                return len(looks) >= 2

            wait_until(has_looked, "it has asked for its partitions twice")
            assert 1 == len(told), told


def test_a_topic_that_is_not_there() -> None:
    """Before anything was read it is a wrong name."""
    with EmbeddedKafka() as kafka, pytest.raises(UnknownTopicError, match="'nowhere'"):
        _backlog(TopicTail(_quick(kafka), "nowhere", 0))


def _quick(kafka: EmbeddedKafka) -> dict[str, Any]:
    return {"bootstrap.servers": kafka.bootstrap, "reconnect.backoff.ms": 20}
