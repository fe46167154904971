"""The form of messages in Spark's state: Arrow, by buckets of their due times."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from heapq import merge
from operator import itemgetter
from os import environ
from tempfile import TemporaryFile
from typing import NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from linear_retry.records.record import Record
from linear_retry.spark.scheduler.producer import Lane
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

PARTS, COUNTS, LANES = "parts", "counts", "lanes"
PART_BYTES = 32 * 1024
"""Spark 4.0's server for Python's state takes what it has received so far for the whole message:
one that the kernel delivers in two pieces fails the task."""
_NO_PARTITION = -1


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


class Buckets:
    """The content of each bucket, in parts, and the number of these.

    A map with one key for each part: a list would be read row by row, and a map that has to be
    searched took 20 s a batch.
    """

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        """Call it in `init` of the processor alone: Spark asks for the variables there."""
        self._parts = handle.getMapState(PARTS, "bucket bigint, part int", "content binary")
        self._counts = handle.getMapState(COUNTS, "bucket bigint", "parts int")

    def append(self, bucket: int, chunk: bytes) -> bool:
        """Adds a chunk to a bucket; returns whether it is a new one.

        Its last part is shorter than the others, if need be empty: so its end is found again.
        """
        before = self._count(bucket)
        starts = range(0, len(chunk) + 1, PART_BYTES)
        for part, start in enumerate(starts, before):
            self._parts.updateValue((bucket, part), (chunk[start : start + PART_BYTES],))
        self._counts.updateValue((bucket,), (before + len(starts),))
        return before == 0

    def take(self, bucket: int) -> Iterator[bytes]:
        """Removes a bucket, and yields its chunks, all of which must be read."""
        yield from joined(map(partial(self._take, bucket), range(self._count(bucket))))
        self._counts.removeKey((bucket,))

    def _take(self, bucket: int, part: int) -> bytes:
        value = self._parts.getValue((bucket, part))
        assert value is not None
        self._parts.removeKey((bucket, part))
        return bytes(value[0])

    def _count(self, bucket: int) -> int:
        found = self._counts.getValue((bucket,))
        return 0 if found is None else int(found[0])


def joined(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the chunks whose parts these are, in order; several buckets may follow one another."""
    chunk = bytearray()
    for part in parts:
        chunk += part
        if len(part) < PART_BYTES:
            yield bytes(chunk)
            chunk.clear()


class WaitingLanes:
    """The lanes with messages that were not delivered in time, each with the bucket of these.

    They are read once for each task: a task has one shard.
    """

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        """Call it in `init` of the processor alone, as `Buckets`."""
        self._state = handle.getMapState(LANES, "topic string, partition int", "bucket bigint")
        self._read: dict[Lane, int] | None = None

    @property
    def lanes(self) -> Collection[Lane]:
        return self._buckets.keys()

    def hold(self, lane: Lane, bucket: int) -> int:
        """Lets a lane wait for that bucket, or the one that it waits for already; returns it."""
        if lane not in self._buckets:
            self._buckets[lane] = bucket
            self._state.updateValue(_key(lane), (bucket,))
        return self._buckets[lane]

    def release(self, bucket: int) -> None:
        """Ends the wait of those that wait for that bucket."""
        for lane in [lane for lane, its in self._buckets.items() if its == bucket]:
            del self._buckets[lane]
            self._state.removeKey(_key(lane))

    @property
    def _buckets(self) -> dict[Lane, int]:
        if self._read is None:
            self._read = {
                (topic, None if number == _NO_PARTITION else number): bucket
                for (topic, number), (bucket,) in self._state.iterator()
            }
        return self._read


def _key(lane: Lane) -> tuple[str, int]:
    topic, number = lane
    return topic, _NO_PARTITION if number is None else number
