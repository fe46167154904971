"""The form of messages in Spark's state: Arrow, by buckets of their due times."""

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # it has no types

from linear_retry.records.record import Record
from linear_retry.store import header_bytes

BUCKET_MS = 500
AHEAD_MS = 1_000
"""How long before its first message a bucket is taken: its task waits for each, and so none waits
for a micro-batch to begin."""
_FIRST_MS = 2 * AHEAD_MS

SCHEMA = pa.schema(
    [
        ("due_ms", pa.int64()),
        ("offset", pa.int64()),
        ("partition", pa.int32()),
        ("topic", pa.string()),
        ("to_partition", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.binary()),
        ("reason", pa.string()),
        ("error", pa.string()),
    ]
)
_in_order = itemgetter(0, 1, 2)


class Held(NamedTuple):
    """A message that waits; the fields are those of `SCHEMA`.

    `partition` and `offset` are its place in the intake topic. With a `reason` it is not sent to
    `topic`, but dead-lettered.
    """

    due_ms: int
    offset: int
    partition: int
    topic: str
    to_partition: int | None
    key: bytes | None
    value: bytes | None
    headers: bytes
    reason: str | None = None
    error: str | None = None

    def record(self, intake: str) -> Record:
        """Returns the record as it was read from the topic `intake`."""
        # They were made safe to send, and list what was changed for that.
        headers = header_bytes.read(self.headers)
        return Record(intake, self.partition, self.offset, -1, self.key, self.value, headers)


def bucket_of(due_ms: int) -> int:
    """Returns the bucket: the begin of its half second, in milliseconds since 1970."""
    return max(due_ms, _FIRST_MS) // BUCKET_MS * BUCKET_MS


def timer_of(bucket: int) -> int:
    """Returns when a bucket is taken from the state; `bucket_of_timer` is the inverse."""
    return bucket - AHEAD_MS


def bucket_of_timer(timer_ms: int) -> int:
    return timer_ms + AHEAD_MS


def pack(messages: Sequence[Held]) -> bytes:
    """Returns messages as bytes. What several calls return may be joined for `unpack`."""
    columns = zip(*messages, strict=True)
    arrays = [pa.array(each, field.type) for each, field in zip(columns, SCHEMA, strict=True)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as stream:
        stream.write_batch(pa.record_batch(arrays, schema=SCHEMA))
    return bytes(sink.getvalue())


def unpack(content: bytes) -> list[Held]:
    """Reads what `pack` has written, in the order of due times, then of the intake's offsets."""
    reader, found = pa.BufferReader(content), list[Held]()
    while reader.tell() < len(content):
        columns = pa.ipc.open_stream(reader).read_all().columns
        found += map(Held._make, zip(*(each.to_pylist() for each in columns), strict=True))
    found.sort(key=_in_order)
    return found
