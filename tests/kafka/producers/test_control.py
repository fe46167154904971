"""Is a command on the topic when `send` returns, and is it said where it is not?"""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from linear_retry.errors import BrokerError, ConfigurationError, UnknownTopicError
from linear_retry.kafka.producers.control import send
from linear_retry.kafka.producers.journal import Record
from tests.fake.cluster import FakeKafka

_TOPIC = "linear-retry.control"
_CONFIG = {"bootstrap.servers": "fake:9092", "group.id": "not a producer's"}
_RECORD = Record(b"id", b"{}", 1_767_225_600_000)


@pytest.fixture
def fake() -> FakeKafka:
    kafka = FakeKafka()
    kafka.create_topic(_TOPIC)
    return kafka


def test_it_is_there(fake: FakeKafka) -> None:
    """With its key, and the time that it was sent at."""
    send(_CONFIG, _TOPIC, _RECORD, producer=fake.producer)
    (record,) = fake.topics[_TOPIC].partitions[0].records
    assert record is not None
    assert (b"id", b"{}", _RECORD.at_ms) == (record.key, record.value, record.timestamp_ms)
    assert "group.id" not in fake.producers[0].config


def test_a_missing_topic_is_named_and_not_made(fake: FakeKafka) -> None:
    """A topic with a retention that nobody chose would be no help."""
    with pytest.raises(UnknownTopicError, match="there is no topic 'other'; check its name"):
        send(_CONFIG, "other", _RECORD, patience_s=60, producer=fake.producer)
    assert "other" not in fake.topics


def test_what_is_not_acknowledged_is_said(fake: FakeKafka) -> None:
    """It may be there all the same: whoever sends it again is told to look first."""
    fake.faults.fail_delivery(KafkaError._MSG_TIMED_OUT, lands=True)
    with pytest.raises(BrokerError, match="look at what has happened before you send it again"):
        send(_CONFIG, _TOPIC, _RECORD, producer=fake.producer)


def test_no_answer_in_time_is_said(fake: FakeKafka) -> None:
    """The brokers are down for longer than anyone waits."""
    fake.faults.brokers_down = True
    with pytest.raises(BrokerError, match="has not acknowledged it"):
        send(_CONFIG, _TOPIC, _RECORD, patience_s=5, producer=fake.producer)


def test_a_key_that_librdkafka_refuses_is_named() -> None:
    """As it says it."""
    with pytest.raises(ConfigurationError, match=r"security\.protocol"):
        send({**_CONFIG, "security.protocol": "magic"}, _TOPIC, _RECORD)
