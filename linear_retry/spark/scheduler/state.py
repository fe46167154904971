"""Reads what a stopped or running scheduler holds, from its checkpoint."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its usual name)
from pyspark.sql.pandas.types import from_arrow_schema

from linear_retry.records.durations import DAY_MS, HOUR_MS
from linear_retry.spark.scheduler.checkpoint import Checkpoint, CheckpointError
from linear_retry.spark.scheduler.held import PARTS, SCHEMA, Held, joined, record_batches, unpack
from linear_retry.spark.session import JavaError, last_cause

_STATE = "spark.sql.streaming.stateStore"
_SETTINGS = {
    f"{_STATE}.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STATE}.rocksdb.trackTotalNumberOfRows": "false",
}

_AT_ONCE = "100"
"""Parts or messages in a Python worker at a time: each of the latter may be a megabyte."""
_AHEAD_MS = (0, HOUR_MS, DAY_MS)


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits for one destination; `due` of the messages should have been sent by now.

    `within_hour` and `within_day` are those that will be due by then, with those that are.
    """

    destination: str
    waiting: int
    due: int
    within_hour: int
    within_day: int
    first_due_ms: int
    last_due_ms: int


def state_session(spark: SparkSession) -> SparkSession:
    """Returns a session of the same application with the settings of the state."""
    own = spark.newSession()
    for name, value in _SETTINGS.items():
        own.conf.set(name, value)
    return own


def held_messages(spark: SparkSession, checkpoint: Checkpoint) -> DataFrame:
    """Returns all messages that wait, as of the last micro-batch that was committed.

    The columns are the fields of `Held`. Raises `CheckpointError`.
    """
    own = spark.newSession()
    own.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", _AT_ONCE)
    try:
        parts = own.read.format("statestore").option("stateVarName", PARTS).load(checkpoint.path)
    except (PySparkException, JavaError) as error:
        raise _unreadable(checkpoint, error) from error
    bucket = ("partition_id", "user_map_key.bucket")
    # A bucket may be larger than a row of Spark: it is read part by part.
    sorted_parts = parts.repartition(*bucket).sortWithinPartitions(*bucket, "user_map_key.part")
    contents = sorted_parts.select("user_map_value.content")
    return contents.mapInArrow(_unpacked, from_arrow_schema(SCHEMA))


def waiting(spark: SparkSession, checkpoint: Checkpoint, now_ms: int) -> list[Waiting]:
    """Counts what waits, by destination. Raises `CheckpointError`."""
    if checkpoint.last_batch() is None:
        return []
    found = (
        held_messages(spark, checkpoint)
        .groupBy("topic")
        .agg(
            F.count(F.lit(1)),
            *(F.count_if(F.col("due_ms") <= now_ms + ahead_ms) for ahead_ms in _AHEAD_MS),
            F.min("due_ms"),
            F.max("due_ms"),
        )
    )
    try:
        return [Waiting(*row) for row in found.orderBy("topic").collect()]
    except (PySparkException, JavaError) as error:
        raise _unreadable(checkpoint, error) from error


def in_order(spark: SparkSession, checkpoint: Checkpoint) -> Iterator[Held]:
    """Yields all that waits, in the order of due times. Raises `CheckpointError`."""
    if checkpoint.last_batch() is None:
        return
    try:
        rows = held_messages(spark, checkpoint).orderBy("due_ms", "offset", "partition")
        for row in rows.toLocalIterator():
            yield Held._make(bytes(e) if isinstance(e, bytearray) else e for e in row)
    except (PySparkException, JavaError) as error:
        raise _unreadable(checkpoint, error) from error


def _unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    parts = (part for batch in batches for part in batch.column(0).to_pylist())
    for chunk in joined(parts):
        yield from record_batches(unpack(chunk))


def _unreadable(checkpoint: Checkpoint, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"{checkpoint.path}: the state cannot be read: {last_cause(str(error))}; try again, or "
        "correct the path"
    )
