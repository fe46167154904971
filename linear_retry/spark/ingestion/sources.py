"""Topics, as the brokers describe them and as Spark reads them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from linear_retry.dlq.reading.cluster import Cluster
from linear_retry.errors import ConfigurationError, UnknownTopicError
from linear_retry.spark.ingestion.kafka_options import librdkafka_keys
from linear_retry.spark.lake.lake import DEAD_LETTERS, JOURNAL, Lake, LakeError
from linear_retry.spark.session import CONNECTOR, SparkMissingError

# A JVM that begins keeps a small machine so busy that a broker on it may take long.
ANSWER_TIMEOUT_S = 30.0
_EARLIEST = -2
"""What Spark calls the beginning of a partition."""
_OPTIONS = {
    "includeHeaders": "true",
    # Records of aborted transactions do not exist.
    "kafka.isolation.level": "read_committed",
    # Only existing records are requested. But after the last one Kafka's client fetches once more,
    # and Spark, which then asks for the partition's end, gets the answer only after that fetch.
    "kafka.fetch.max.wait.ms": "10",
}


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


def stream_of(
    spark: SparkSession, source: Source, starting: Mapping[int, int], options: Mapping[str, str]
) -> DataFrame:
    """The topic's records as a stream, from these offsets on; other partitions from their first.

    Raises `SparkMissingError` if the session has no Kafka connector.
    """
    offsets = {each: starting.get(each, _EARLIEST) for each in source.bounds}
    begin = json.dumps({source.topic: offsets}) if starting else "earliest"
    reader = spark.readStream.format("kafka").options(**{**_OPTIONS, **options})
    try:
        return reader.options(startingOffsets=begin, subscribe=source.topic).load()
    except AnalysisException as error:
        raise SparkMissingError(
            f"the session has no Kafka connector; begin it with spark.jars.packages={CONNECTOR}"
        ) from error


def starting_offsets(lake: Lake, source: Source) -> dict[int, int]:
    """Returns where to begin: after the rows that the table has; empty, for at the first record.

    Spark ignores it once it has begun. Raises `LakeError` if these rows are from another topic of
    that name.
    """
    known = lake.topic_id(source.table, source.topic)
    if known not in (None, source.topic_id):
        raise LakeError(
            f"{lake.path}: {source.table} has rows of another topic {source.topic!r} (id {known}, "
            f"and this one's is {source.topic_id}): it was recreated, or is in another cluster; "
            "use another lake"
        )
    if known is None:
        return {}
    if lake.has_begun(source.table, source.topic, source.topic_id):
        return {}  # ignored; to find the last offsets, Spark would read the whole table
    return lake.next_offsets(source.table, source.topic)
