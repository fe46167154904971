"""What the producer of a task promises while its broker does not answer."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from linear_retry.errors import BrokerError
from linear_retry.records.record import OutgoingRecord
from linear_retry.spark.scheduler.producer import TaskProducer
from tests.real_kafka import RealKafka

_DELIVERED_S = 1.0


@contextmanager
def _frozen(kafka: RealKafka) -> Iterator[None]:
    assert kafka.pid is not None
    os.kill(kafka.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(kafka.pid, signal.SIGCONT)


@pytest.mark.broker
def test_a_broker_that_does_not_answer_for_a_while(own_kafka: RealKafka) -> None:
    """Of one partition the earlier records are never given up while the later ones are taken; and
    that nobody answers at all is an error."""
    own_kafka.create_topic("orders")
    config = {"bootstrap.servers": own_kafka.bootstrap}
    producer = TaskProducer(config, answer_s=1.0, delivered_s=_DELIVERED_S)
    first, second, third = (
        OutgoingRecord("orders", b"key", value) for value in (b"first", b"second", b"third")
    )
    assert 1 == producer.partitions("orders")
    with _frozen(own_kafka):
        begun = [(first, producer.begin(first))]
        producer.poll(2 * _DELIVERED_S)
        begun.append((second, producer.begin(second)))
    assert [None, None] == producer.finish(begun)
    assert [b"first", b"second"] == [each.value() for each in own_kafka.read("orders")]
    with _frozen(own_kafka), pytest.raises(BrokerError, match="orders: no broker answers"):
        producer.deliver([third])
