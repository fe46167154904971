"""The buckets of one shard in Spark's state, and the lanes that wait for one."""

from collections.abc import Collection, Iterable, Iterator
from functools import partial

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from linear_retry.spark.scheduler.producer import Lane

PARTS, COUNTS, LANES = "parts", "counts", "lanes"
PART_BYTES = 32 * 1024
"""Spark 4.0's server for Python's state takes what it has received so far for the whole message:
one that the kernel delivers in two pieces fails the task."""
_NO_PARTITION = -1


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
