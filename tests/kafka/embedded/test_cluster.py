"""The embedded broker does what the demo and the tests ask of it."""

import os
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient

from linear_retry.errors import BrokerError, ConfigurationError, UsageError
from linear_retry.kafka.embedded import mock_cluster
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S

_QUIET = {"log_level": 0}


@pytest.fixture
def embedded() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as broker:
        yield broker


def _partitions(broker: EmbeddedKafka, topic: str) -> int:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, **_QUIET})
    return len(admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions)


def _one_message(broker: EmbeddedKafka, topic: str) -> Message | None:
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": "readers",
        "auto.offset.reset": "earliest",
        **_QUIET,
    }
    with Consumer(settings) as consumer:
        consumer.subscribe([topic])
        return consumer.poll(PATIENCE_S)


def _threads() -> set[str]:
    # librdkafka's threads are not Python's, so `threading` does not know them.
    return set(os.listdir("/proc/self/task"))


def test_a_topic_has_the_partitions_asked_for(embedded: EmbeddedKafka) -> None:
    """A created topic has as many partitions as were asked for."""
    embedded.create_topic("orders", 7)
    assert _partitions(embedded, "orders") == 7


def test_what_is_produced_is_consumed_by_a_group(embedded: EmbeddedKafka) -> None:
    """A message produced by one client reaches another that subscribes in a group."""
    embedded.create_topic("orders", 4)
    producer = Producer({"bootstrap.servers": embedded.bootstrap, **_QUIET})
    producer.produce("orders", b"book", key=b"ann", partition=2)
    assert producer.flush(PATIENCE_S) == 0
    message = _one_message(embedded, "orders")
    assert message is not None
    assert (message.partition(), message.key(), message.value()) == (2, b"ann", b"book")


def test_a_topic_is_created_once(embedded: EmbeddedKafka) -> None:
    """Creating a topic that exists is an error that names it."""
    embedded.create_topic("orders", 1)
    with pytest.raises(BrokerError, match="'orders'"):
        embedded.create_topic("orders", 1)


def test_one_object_runs_again_after_its_end() -> None:
    """The same object can be entered again, and starts empty."""
    broker = EmbeddedKafka()
    for _ in range(2):
        with broker:
            broker.create_topic("orders", 1)
            assert _partitions(broker, "orders") == 1


def test_outside_its_block_it_is_an_error_and_no_crash() -> None:
    """What needs the cluster raises `UsageError` outside the `with` block."""
    broker = EmbeddedKafka()
    with broker:
        pass
    with pytest.raises(UsageError, match="with"):
        _ = broker.bootstrap
    with pytest.raises(UsageError, match="with"):
        broker.create_topic("orders", 1)


def test_it_cannot_be_entered_twice(embedded: EmbeddedKafka) -> None:
    """Entering a running broker is an error; the first cluster would never end otherwise."""
    with pytest.raises(UsageError, match="already"), embedded:
        pass


def test_no_thread_is_left_behind() -> None:
    """Leaving the `with` block ends every thread that entering it began."""
    before = _threads()
    with EmbeddedKafka(brokers=3):
        began = _threads() - before
        assert began
    # Linux tells who joins a thread of its end a moment before it takes it off the list.
    wait_until(lambda: not began & _threads(), "they are gone", lambda: began & _threads())


def test_a_number_of_brokers_that_cannot_be_is_refused() -> None:
    """librdkafka's own refusal comes through, with its words."""
    with pytest.raises(BrokerError, match=r"test\.mock\.num\.brokers"), EmbeddedKafka(brokers=-1):
        pass


def test_a_function_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where librdkafka is older, or hidden, the start says what is missing and what to do."""
    monkeypatch.setitem(mock_cluster._SIGNATURES, "rd_kafka_mock_of_tomorrow", (None, []))
    missing = r"does not expose.*rd_kafka_mock_of_tomorrow;.*upgrade it, or use a real broker"
    with pytest.raises(ConfigurationError, match=missing), EmbeddedKafka():
        pass
