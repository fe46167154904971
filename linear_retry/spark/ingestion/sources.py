"""Can these topics be read, and do they belong to what is in the lake?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from linear_retry.dlq.cluster import Cluster
from linear_retry.errors import ConfigurationError, UnknownTopicError
from linear_retry.spark.ingestion.kafka_options import librdkafka_keys
from linear_retry.spark.lake.lake import DEAD_LETTERS, JOURNAL, Lake, LakeError


@dataclass(frozen=True, slots=True)
class Source:
    """A topic that goes into a table. `bounds`: of each partition its first offset, and its end."""

    table: str
    topic: str
    topic_id: str
    bounds: Mapping[int, tuple[int, int]]


def wanted(dead_letters: Iterable[str], journal: str | None) -> list[tuple[str, str]]:
    """Which topic goes into which table."""
    named = [(DEAD_LETTERS, topic) for topic in dead_letters]
    return named if journal is None else [*named, (JOURNAL, journal)]


def found(config: Mapping[str, Any], named: list[tuple[str, str]]) -> tuple[Source, ...]:
    """The topics, by table and name, as the brokers tell of them. Needs no Spark.

    Raises `ConfigurationError`, `BrokerError` and `UnknownTopicError`, before anything is written.
    """
    topics = [topic for _, topic in named]
    if not topics:
        raise ConfigurationError("no topic is named; name dead_letters, journal or both")
    twice = next((topic for topic in topics if topics.count(topic) > 1), None)
    if twice is not None:
        raise ConfigurationError(f"topic {twice!r} is named twice; name it once")
    cluster = Cluster(librdkafka_keys(config))
    # First, for its errors say most: which topic is missing, and which address does not answer.
    bounds = {topic: cluster.reader.bounds(topic) for topic in topics}
    facts = cluster.topics.facts(topics)
    return tuple(
        Source(table, topic, _id(facts[topic], topic), bounds[topic]) for table, topic in named
    )


def _id(facts: Any, topic: str) -> str:
    if facts is None:
        raise UnknownTopicError(f"there is no topic {topic!r} any more; check its name")
    return str(facts.id)


def other_topic(lake: Lake, source: Source, known: str | None) -> LakeError:
    """What to raise where the rows of that name are not of this topic."""
    return LakeError(
        f"{lake.path}: {source.table} has rows of another topic {source.topic!r} (id {known}, and "
        f"this one's is {source.topic_id}): it was made anew, or is in another cluster; use "
        "another lake"
    )


def claim(lake: Lake, source: Source) -> None:
    """Note that this table's rows of that name are of this topic, and of no other.

    Raises `LakeError` where they are of another, or where what says how far it is has gone.
    """
    table, topic = source.table, source.topic
    known = lake.topic_id(table, topic)
    if known not in (None, source.topic_id):
        raise other_topic(lake, source, known)
    if lake.has_batches(table, topic) and not lake.has_checkpoint(table, topic):
        raise LakeError(
            f"{lake.path}: {table} has rows of {topic!r}, but nothing says how far it has come "
            f"({lake.checkpoint(table, topic)} is gone): remove those rows, or use another lake"
        )
    if known is None:
        lake.keep_topic_id(table, topic, source.topic_id)
