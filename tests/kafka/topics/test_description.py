"""Topics are created as they are needed, and described as they are."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from linear_retry.errors import BrokerError
from linear_retry.kafka.topics.description import Topics
from linear_retry.records.topics.description import NeededTopic
from tests.conftest import TopicFactory
from tests.real_kafka import RealKafka

pytestmark = pytest.mark.broker


def _topics(kafka: RealKafka) -> Topics:
    return Topics({"bootstrap.servers": kafka.bootstrap})


def test_a_topic_is_described_as_it_was_created(kafka: RealKafka) -> None:
    """Each setting that matters to us is read back."""
    settings = {
        "cleanup.policy": "delete",
        "message.timestamp.type": "LogAppendTime",
        "retention.ms": "1209600000",
        "retention.bytes": "1000",
        "max.message.bytes": "2000",
        "min.insync.replicas": "1",
    }
    name = "described"
    assert _topics(kafka).create(NeededTopic(name, "retry", 3, 1, settings))
    (found,) = _topics(kafka).describe([name]).values()
    assert found is not None
    assert (3, 1) == (found.partitions, found.replication)
    assert (False, True) == (found.is_compacted, found.is_deleted)
    assert (True, 1) == (found.stamps_by_broker, found.min_insync_replicas)
    assert (1_209_600_000, 1000) == (found.retention_ms, found.retention_bytes)
    assert 2000 == found.max_message_bytes


def test_no_limit_is_none(kafka: RealKafka) -> None:
    """Kafka's -1, and a limit that a compacted topic ignores."""
    forever = {"retention.ms": "-1", "retention.bytes": "-1"}
    ignored = {"cleanup.policy": "compact", "retention.ms": "1000", "retention.bytes": "1000"}
    for name, settings in (("forever", forever), ("ignored", ignored)):
        assert _topics(kafka).create(NeededTopic(name, "journal", 1, 1, settings))
        (found,) = _topics(kafka).describe([name]).values()
        assert found is not None
        assert (None, None) == (found.retention_ms, found.retention_bytes)


def test_several_that_create_at_once(kafka: RealKafka) -> None:
    """One creates it, and the others find it there, which is no error."""
    topic = NeededTopic("raced", "retry", 1, 1)
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: _topics(kafka).create(topic), range(4)))
    assert [False, False, False, True] == sorted(made)


def test_what_brokers_refuse(kafka: RealKafka) -> None:
    """It is said which topic, and why."""
    with pytest.raises(BrokerError, match=r"creating topic 'too-safe' is refused: .*replica"):
        _topics(kafka).create(NeededTopic("too-safe", "retry", 1, 3))


class _Lost:
    """A client that has lost its brokers."""

    def __init__(self, _: object) -> None:
        """Of any configuration."""

    def describe_topics(self, topics: TopicCollection, **_: object) -> dict[str, Future[object]]:
        answer = Future[object]()
        text = "Failed while waiting for controller: Local: Timed out"
        answer.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT, text)))
        return dict.fromkeys(topics.topic_names, answer)


def test_a_client_that_has_lost_its_brokers_is_asked_once(
    kafka: RealKafka, topic: TopicFactory
) -> None:
    """The bug: it was asked again and again, for ever; a new one finds them."""
    clients: Iterator[Callable[[Any], Any]] = iter((_Lost, AdminClient))
    name = topic()
    topics = Topics(
        {"bootstrap.servers": kafka.bootstrap}, admin=lambda config: next(clients)(config)
    )
    with pytest.raises(BrokerError, match="Failed while waiting for controller"):
        topics.id_of(name)
    assert topics.id_of(name)
    assert topics.id_of(name)


def test_where_nobody_answers() -> None:
    """That is no refusal, which it was called."""
    nowhere = Topics({"bootstrap.servers": "127.0.0.1:9"}, 0.1)
    with pytest.raises(BrokerError, match="no answer about topic 'orders'") as raised:
        nowhere.describe(["orders"])
    assert "refused: " not in str(raised.value)
