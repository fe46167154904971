"""The form of messages in Spark's state: Arrow, by buckets of their due times."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from heapq import merge
from operator import itemgetter
from os import environ
from tempfile import TemporaryFile
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
_by_due = itemgetter(0, 1, 2)
_MOST_MESSAGES, _MOST_BYTES = 20_000, 32 * 1024 * 1024
_RUN_BATCHES = 64
"""When runs are merged, this part of each is in memory."""


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

    @property
    def size_bytes(self) -> int:
        return len(self.key or b"") + len(self.value or b"") + len(self.headers)

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


def record_batches(messages: Sequence[Held], rows: int | None = None) -> Iterator[pa.RecordBatch]:
    """Yields messages as batches of `SCHEMA`, of that many rows; None: one of all."""
    rows = rows or max(1, len(messages))
    for start in range(0, len(messages), rows):
        columns = zip(*messages[start : start + rows], strict=True)
        arrays = [pa.array(each, field.type) for each, field in zip(columns, SCHEMA, strict=True)]
        yield pa.record_batch(arrays, schema=SCHEMA)


def pack(messages: Sequence[Held]) -> bytes:
    """Returns messages as bytes. What several calls return may be joined for `unpack`."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as stream:
        for batch in record_batches(messages):
            stream.write_batch(batch)
    return bytes(sink.getvalue())


def unpack(content: bytes) -> list[Held]:
    """Reads what `pack` has written, in that order."""
    reader, found = pa.BufferReader(content), list[Held]()
    while reader.tell() < len(content):
        found += _read(pa.ipc.open_stream(reader))
    return found


def in_order(
    chunks: Iterable[bytes],
    most_messages: int = _MOST_MESSAGES,
    most_bytes: int = _MOST_BYTES,
) -> Iterator[Held]:
    """Yields the messages of all chunks in the order of due times, then of the intake's offsets.

    All chunks are read first. No more than that many messages or bytes, and one chunk, are in
    memory at a time: what is more is sorted in files in Spark's local directory.
    """
    with ExitStack() as files:
        runs, found, size_bytes = list[Iterator[Held]](), list[Held](), 0
        for chunk in chunks:
            found += unpack(chunk)
            size_bytes += len(chunk)
            if len(found) >= most_messages or size_bytes >= most_bytes:
                runs.append(_on_disk(files, sorted(found, key=_by_due)))
                found, size_bytes = [], 0
        found.sort(key=_by_due)
        yield from merge(*runs, found, key=_by_due) if runs else found


def in_parts(
    messages: Iterable[Held],
    most_messages: int = _MOST_MESSAGES,
    most_bytes: int = _MOST_BYTES,
) -> Iterator[list[Held]]:
    """Yields messages in lists of no more than that many, or bytes and one message."""
    part, size_bytes = list[Held](), 0
    for each in messages:
        part.append(each)
        size_bytes += each.size_bytes
        if len(part) >= most_messages or size_bytes >= most_bytes:
            yield part
            part, size_bytes = [], 0
    if part:
        yield part


def _on_disk(files: ExitStack, messages: Sequence[Held]) -> Iterator[Held]:
    """Writes a sorted run to a file that nobody else sees, and returns its reader."""
    directory = environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
    file = files.enter_context(TemporaryFile(dir=directory))  # noqa: SIM115  (`files` closes it)
    with pa.ipc.new_stream(file, SCHEMA) as stream:
        for batch in record_batches(messages, 1 + len(messages) // _RUN_BATCHES):
            stream.write_batch(batch)
    file.seek(0)
    return _read(pa.ipc.open_stream(file))


def _read(stream: pa.ipc.RecordBatchStreamReader) -> Iterator[Held]:
    for batch in stream:
        columns = (column.to_pylist() for column in batch.columns)
        yield from map(Held._make, zip(*columns, strict=True))
