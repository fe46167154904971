"""Makes of records the rows that Spark's Kafka source would give."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession

from linear_retry.records.record import Record

T = TypeVar("T")

NANOSECONDS = 1_700_000_000_000_000_000
"""A time that Kafka takes for milliseconds, and Spark cannot hold."""
ANY_TIME = {f"message.timestamp.{each}.max.ms": str(2**63 - 1) for each in ("before", "after")}
"""The settings of a topic that takes it, as by default before Kafka 4."""

_SCHEMA = (
    "key binary, value binary, topic string, partition int, `offset` bigint, timestamp timestamp, "
    "headers array<struct<key: string, value: binary>>"
)
_AT = datetime(2026, 11, 21, tzinfo=UTC)
AT_MS = int(_AT.timestamp()) * 1000
"""When all of them were written: not every time of a record is one of Spark's."""


class Many(list[T]):
    """A list that is not printed: a property that fails says itself what it failed of."""

    def __repr__(self) -> str:
        return f"{len(self)} of them"


def frame(
    spark: SparkSession, records: Iterable[Record], *, with_own_times: bool = False
) -> DataFrame:
    """One row for each, in one task; without headers the column is NULL, as the source has it."""
    rows = [
        (
            *(each.key, each.value, each.topic, each.partition, each.offset),
            datetime.fromtimestamp(each.timestamp_ms / 1000, UTC) if with_own_times else _AT,
            each.headers or None,
        )
        for each in records
    ]
    return spark.createDataFrame(rows, _SCHEMA).coalesce(1)
