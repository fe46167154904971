"""The direct producer: what it has not delivered can be taken back, in order."""

from collections import deque
from typing import Any

import pytest
from confluent_kafka import KafkaException

from linear_retry.kafka.producers.direct import DirectProducer, Report, Unsent, text_of
from linear_retry.kafka.producers.direct_settings import direct_settings
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.real_kafka import RealKafka, free_ports


class _Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def _unsent(topic: str, value: bytes, *, may_be_stored: bool = True) -> Unsent:
    return topic, value, b"k", -1, 0, (), b"id-" + value, may_be_stored, lambda *_: None


def _down(**more: Any) -> dict[str, Any]:
    """Settings that reach no broker."""
    (port,) = free_ports(1)
    return {"bootstrap.servers": f"127.0.0.1:{port}", **more}


def _producer(config: dict[str, Any], **options: Any) -> tuple[DirectProducer, deque[Report]]:
    reports: deque[Report] = deque()
    return DirectProducer(direct_settings(config).config, reports, **options), reports


def _polled(producer: DirectProducer) -> DirectProducer:
    producer.poll(0.1)
    return producer


def test_what_is_not_delivered_is_given_back_in_order() -> None:
    """What must not be stored is reported as timed out instead."""
    producer, reports = _producer(_down())
    for number in range(10):
        value = b"%d" % number
        assert producer.send(number + 1, _unsent("orders", value, may_be_stored=number != 4))
    assert [b"%d" % number for number in range(10) if number != 4] == [
        unsent[1] for unsent in producer.drain(10.0)
    ]
    ((failed, error, *_),) = reports
    assert (b"4", "_MSG_TIMED_OUT") == (failed[1], error.name())


def test_a_record_that_waits_too_long_is_a_failure() -> None:
    """Its own age counts, not that of those sent before or after it."""
    clock = _Clock()
    producer, _ = _producer(_down(), now_s=clock)
    producer.mark(10.0)
    clock.now_s = 100.0
    producer.send(1, _unsent("orders", b"1"))
    producer.mark(10.0)
    clock.now_s = 109.0
    producer.send(2, _unsent("orders", b"2"))
    producer.mark(10.0)
    before = producer.has_failed
    clock.now_s = 110.0
    producer.mark(10.0)
    assert (False, True) == (before, producer.has_failed)
    assert "no acknowledgement in time" == text_of(producer.error)
    assert 2 == len(producer.drain(10.0))


def test_what_is_acknowledged_is_forgotten(kafka: RealKafka, topic: TopicFactory) -> None:
    """And reported with its place, to those who asked."""
    name = topic()
    producer, reports = _producer(kafka.client_settings())
    for number in range(1, 301):
        producer.send(number, _unsent(name, b"%d" % number))
    wait_until(lambda: len(_polled(producer)) == 0, "all are acknowledged")
    assert list(range(300)) == [report.offset for report in reports]
    assert [] == producer.drain(10.0)


def test_after_a_refused_batch_nothing_more_is_sent(kafka: RealKafka, topic: TopicFactory) -> None:
    """Its other records, and those behind it, are given back in their order."""
    name = topic(1, {"max.message.bytes": "2000"})
    producer, _ = _producer(kafka.client_settings(**{"linger.ms": 200}))
    values = [b"1", b"2", b"x" * 5000, b"3"]
    for number, value in enumerate(values, 1):
        producer.send(number, _unsent(name, value))
    wait_until(lambda: _polled(producer).has_failed, "the batch is refused")
    assert not producer.send(5, _unsent(name, b"4"))
    assert values == [unsent[1] for unsent in producer.drain(10.0)]
    assert [] == kafka.read(name)


def test_what_no_producer_takes_raises() -> None:
    """It would only hide in the store; nothing of it is kept."""
    producer, _ = _producer(_down())
    with pytest.raises(KafkaException, match="MSG_SIZE_TOO_LARGE"):
        producer.send(1, _unsent("orders", b"x" * 2_000_000))
    assert 0 == len(producer)
    assert [] == producer.drain(10.0)


def test_whether_a_broker_answers(kafka: RealKafka) -> None:
    """Asked before anything is sent again."""
    assert not _producer(_down())[0].is_answered("orders", 0.1)
    there, _ = _producer(kafka.client_settings())
    wait_until(lambda: there.is_answered("orders", 1.0), "it answers")
