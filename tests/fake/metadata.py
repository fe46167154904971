"""The metadata of topics that are there, and of those that are not."""

from collections.abc import Mapping

from confluent_kafka import KafkaError
from confluent_kafka.admin import BrokerMetadata, ClusterMetadata, PartitionMetadata, TopicMetadata  # type: ignore[attr-defined]  # exported by import only

from tests.fake.topic import FakeTopic


def described(topics: Mapping[str, FakeTopic | None]) -> ClusterMetadata:
    """One that is None is missing."""
    known = ClusterMetadata()
    known.brokers = {1: BrokerMetadata()}
    for name, topic in topics.items():
        known.topics[name] = _described(name, topic)
    return known


def _described(name: str, topic: FakeTopic | None) -> TopicMetadata:
    metadata = TopicMetadata()
    metadata.topic = name
    if topic is None:
        code = KafkaError.UNKNOWN_TOPIC_OR_PART
        metadata.error = KafkaError(code, "Broker: Unknown topic or partition")
        return metadata
    for number in range(len(topic.partitions)):
        metadata.partitions[number] = PartitionMetadata()
        metadata.partitions[number].id = number
    return metadata
