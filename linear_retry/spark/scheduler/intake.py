"""Reads the scheduler's topic into chunks for Spark's state, whether Spark can read it or not."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from linear_retry.records.record import OutgoingRecord, Record
from linear_retry.records.text import sendable
from linear_retry.scheduler.contract import read_request
from linear_retry.scheduler.destinations import Destinations
from linear_retry.spark.ingestion.sources import LAST_MS, planned
from linear_retry.spark.scheduler.checkpoint import Checkpoint
from linear_retry.spark.scheduler.held import Held, bucket_of, pack
from linear_retry.spark.scheduler.producer import write
from linear_retry.spark.session import JavaError
from linear_retry.store import header_bytes
from linear_retry.store.records import NewDeadLetter, partition_of

COLUMNS = ("key", "value", "partition", "offset", "headers")
"""Those of Spark's Kafka source that it reads."""
CHUNK = "shard bigint, bucket bigint, content binary"
_CHUNK = pa.schema([("shard", pa.int64()), ("bucket", pa.int64()), ("content", pa.binary())])


@dataclass(frozen=True, slots=True)
class Intake:
    """The function that makes chunks of records, for `mapInArrow`.

    `shards` are the keys of the state's partitions: all messages of one target partition are in
    one shard, which sends them in order.
    """

    destinations: Destinations
    shards: Sequence[int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            chunks = defaultdict[tuple[int, int], list[Held]](list)
            now_ms = time.time_ns() // 1_000_000
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                shard, held = self._read(row, now_ms)
                chunks[shard, bucket_of(held.due_ms)].append(held)
            if chunks:
                yield _record_batch(chunks)

    def _read(self, row: Sequence[Any], now_ms: int) -> tuple[int, Held]:
        key, value, partition, offset, pairs = row
        given = ((pair["key"], pair["value"]) for pair in pairs or ())
        headers, escaped = sendable(given)
        record = Record(
            self.destinations.intake, partition, offset, -1, key, value, headers, escaped
        )
        found = read_request(record, self.destinations, now_ms)
        content = header_bytes.write(found.headers)
        if isinstance(found, NewDeadLetter):
            where = (found.destination, found.partition, key, value, content)
            held = Held(now_ms, offset, partition, *where, found.reason, found.error)
            return self.shards[0], held
        number = partition_of(found.slot)
        lane = f"{found.destination}/{found.slot}"
        shard = self.shards[crc32(lane.encode()) % len(self.shards)]
        where = (found.destination, number, key, value, content)
        return shard, Held(found.due_ms, offset, partition, *where)


def _record_batch(chunks: dict[tuple[int, int], list[Held]]) -> pa.RecordBatch:
    shards, buckets = zip(*chunks, strict=True)
    columns = (shards, buckets, [pack(messages) for messages in chunks.values()])
    arrays = [pa.array(each, field.type) for each, field in zip(columns, _CHUNK, strict=True)]
    return pa.record_batch(arrays, schema=_CHUNK)


def write_again(
    spark: SparkSession, config: Mapping[str, Any], topic: str, checkpoint: Checkpoint
) -> int:
    """Moves what Spark cannot read of the next micro-batch to the end of its partition.

    With all that is before it there, and with the time of now; returns how many. Killed amid it,
    the next call continues: a few are then sent twice, with the same ids. Raises `BrokerError`,
    also for one that has become too large for the topic, and `CheckpointError`.
    """
    try:
        batch = planned(spark, checkpoint.path, topic)
    except (PySparkException, JavaError) as error:
        raise checkpoint.unusable(error) from error
    ends = {
        each.partition: each.offset + 1
        for some in batch.records(config, topic)
        for each in some
        if abs(each.timestamp_ms) > LAST_MS
    }
    count, starts = 0, dict(batch.starts)
    for some in replace(batch, ends=ends).records(config, topic):

        def move(sent: int, some: list[Record] = some) -> None:
            # Else the next call would write again what stands before a record that is refused.
            starts.update((each.partition, each.offset + 1) for each in some[:sent])
            checkpoint.move_start(batch.number, topic, starts)

        again = (
            OutgoingRecord(topic, each.key, each.value, each.headers, each.partition)
            for each in some
        )
        # A broker takes a record by its compressed length: it may not take this one without.
        count += write(config, ((each, iter(())) for each in again), move, compression="zstd")
    checkpoint.move_start(batch.number, topic, starts | ends)
    return count
