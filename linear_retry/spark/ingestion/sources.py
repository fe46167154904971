"""The topics of an ingest, as the brokers describe them, and whether the lake's rows are theirs."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from linear_retry.dlq.cluster import Cluster
from linear_retry.errors import ConfigurationError, UnknownTopicError
from linear_retry.spark.ingestion.kafka_options import librdkafka_keys
from linear_retry.spark.lake.lake import DEAD_LETTERS, JOURNAL, Lake, LakeError

# A JVM that begins keeps a small machine so busy that a broker on it may take long.
ANSWER_TIMEOUT_S = 30.0
_EARLIEST = -2
"""What Spark calls the beginning of a partition."""


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
    cluster = Cluster(librdkafka_keys(config), ANSWER_TIMEOUT_S)
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


def starting_offsets(lake: Lake, source: Source) -> str:
    """Returns where to begin, as Spark's Kafka source has it.

    That is after the rows that the table has; Spark ignores it once it has begun. Raises
    `LakeError` if these rows are from another topic of that name.
    """
    known = lake.topic_id(source.table, source.topic)
    if known not in (None, source.topic_id):
        raise other_topic(lake, source, known)
    if known is None:
        return "earliest"
    if lake.has_begun(source.table, source.topic, source.topic_id):
        return "earliest"  # ignored; to find the last offsets, Spark would read the whole table
    found = lake.next_offsets(source.table, source.topic)
    return json.dumps({source.topic: {each: found.get(each, _EARLIEST) for each in source.bounds}})
