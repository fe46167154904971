"""Reads records of the scheduler's topic into chunks for Spark's state."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import pyarrow as pa  # type: ignore[import-untyped]  # it has no types

from linear_retry.records.record import Record
from linear_retry.records.text import sendable
from linear_retry.scheduler.contract import read_request
from linear_retry.scheduler.destinations import Destinations
from linear_retry.spark.scheduler.held import Held, bucket_of, pack
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
