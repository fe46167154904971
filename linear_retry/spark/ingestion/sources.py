"""The topics of an ingest, as the brokers describe them, and whether the lake's rows are theirs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from linear_retry.dlq.cluster import Cluster
from linear_retry.errors import ConfigurationError, UnknownTopicError
from linear_retry.spark.ingestion.kafka_options import librdkafka_keys
from linear_retry.spark.lake.lake import DEAD_LETTERS, JOURNAL, Lake, LakeError


@dataclass(frozen=True, slots=True)
class Source:
    """A topic that goes into a table; `bounds` are each partition's beginning and end offsets."""

    table: str
    topic: str
    topic_id: str
    bounds: Mapping[int, tuple[int, int]]


def find_sources(
    config: Mapping[str, Any], dead_letters: Iterable[str], journal: str | None = None
) -> tuple[Source, ...]:
    """Asks the brokers for the topics; needs no Spark.

    Raises `ConfigurationError`, `BrokerError` and `UnknownTopicError`, before anything is written.
    """
    tables = [(DEAD_LETTERS, topic) for topic in dead_letters]
    tables += [] if journal is None else [(JOURNAL, journal)]
    topics = [topic for _, topic in tables]
    if not topics:
        raise ConfigurationError("no topic is named; name dead_letters, journal or both")
    cluster = Cluster(librdkafka_keys(config))
    # First, as its errors are the clearest: a missing topic, or an address without an answer.
    bounds = {topic: cluster.reader.bounds(topic) for topic in topics}
    facts = cluster.topics.describe(topics)
    return tuple(
        Source(table, topic, _id(facts[topic], topic), bounds[topic]) for table, topic in tables
    )


def _id(facts: Any, topic: str) -> str:
    if facts is None:
        raise UnknownTopicError(f"topic {topic!r} does not exist any more; check its name")
    return str(facts.id)


def other_topic(lake: Lake, source: Source, known: str | None) -> LakeError:
    """Returns the error for rows from another topic with the same name."""
    return LakeError(
        f"{lake.path}: {source.table} has rows of another topic {source.topic!r} (id {known}, and "
        f"this one's is {source.topic_id}): it was recreated, or is in another cluster; use "
        "another lake"
    )


def claim(lake: Lake, source: Source) -> None:
    """Records which topic this table's rows of that name are from.

    Raises `LakeError` if they are from another one, or if their checkpoint is gone.
    """
    table, topic = source.table, source.topic
    known = lake.topic_id(table, topic)
    if known not in (None, source.topic_id):
        raise other_topic(lake, source, known)
    if lake.has_batches(table, topic) and not lake.has_checkpoint(table, topic):
        raise LakeError(
            f"{lake.path}: {table} has rows of {topic!r}, but their progress is unknown "
            f"({lake.checkpoint(table, topic)} is gone): remove those rows, or use another lake"
        )
    if known is None:
        lake.write_topic_id(table, topic, source.topic_id)
