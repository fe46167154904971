"""Reads a micro-batch that Spark's Kafka source cannot read.

Spark (4.0) has timestamps in microseconds. A record whose timestamp does not fit, such as one in
nanoseconds, fails its micro-batch, and fails it again whenever the query is started.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.kafka.topics.reader import TopicReader
from linear_retry.records.record import Record
from linear_retry.spark.ingestion.kafka_options import librdkafka_keys
from linear_retry.spark.ingestion.sources import ANSWER_TIMEOUT_S

LAST_MS = 9_000_000_000_000_000
"""Nearer to 1970 than this, Spark can hold a time: its own ends are a bit further away."""
_TIMESTAMP = f"timestamp_millis(greatest(-{LAST_MS}, least({LAST_MS}, timestamp_ms)))"
_SCHEMA = (
    "topic string, partition int, `offset` bigint, timestamp_ms bigint, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>"
)
TOO_FAR = "a record's timestamp is one that Spark cannot hold"


def is_too_far(error: str) -> bool:
    """Whether it is what a query says that has failed because of a record's timestamp."""
    return "java.lang.ArithmeticException: long overflow" in error


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """A micro-batch that a query has begun, with its first and its end offsets by partition."""

    number: int
    starts: Mapping[int, int]
    ends: Mapping[int, int]

    def records(self, config: Mapping[str, Any], topic: str) -> Iterator[list[Record]]:
        """Yields its records in lists, each partition in order. Raises `BrokerError`."""
        reader = TopicReader(librdkafka_keys(config), ANSWER_TIMEOUT_S)
        # Partitions that are new have no start yet.
        starts = {number: self.starts.get(number, 0) for number in self.ends}
        yield from reader.read(topic, starts=starts, ends=self.ends)

    def frame(self, spark: SparkSession, config: Mapping[str, Any], topic: str) -> DataFrame:
        """Its records as Spark's source would give them, `with_ms`; their time is the nearest."""
        rows = [
            (
                *(each.topic, each.partition, each.offset, each.timestamp_ms),
                *(each.key, each.value, list(each.headers) or None),
            )
            for some in self.records(config, topic)
            for each in some
        ]
        return spark.createDataFrame(rows, _SCHEMA).withColumn("timestamp", F.expr(_TIMESTAMP))

    def pieces(self, offsets: int) -> Iterator["PlannedBatch"]:
        """Yields parts of it with so many offsets of one partition: the same at each call."""
        for number, end in sorted(self.ends.items()):
            for start in range(self.starts.get(number, 0), end, offsets):
                ends = {number: min(start + offsets, end)}
                yield PlannedBatch(self.number, {number: start}, ends)


def planned(spark: SparkSession, checkpoint: str, topic: str) -> PlannedBatch:
    """Returns the last micro-batch that a query with this checkpoint has begun."""
    logged = _offsets(spark, f"{checkpoint}/offsets", topic)
    number = max(logged)
    before = logged if number else _offsets(spark, f"{checkpoint}/sources/0", topic)
    return PlannedBatch(number, before[max(number - 1, 0)], logged[number])


def _offsets(spark: SparkSession, directory: str, topic: str) -> dict[int, dict[int, int]]:
    """The offsets in each of Spark's files there, by its number."""
    # Asked of Spark and not of a file system, so that Spark Connect can answer too.
    files = spark.read.text(directory, wholetext=True).select("_metadata.file_name", "value")
    return {
        int(name): {
            int(number): offset
            for number, offset in json.loads(content.splitlines()[-1])[topic].items()
        }
        for name, content in files.collect()
    }
