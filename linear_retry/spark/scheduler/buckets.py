"""The buckets of one shard in Spark's state."""

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

PARTS, COUNTS = "parts", "counts"
_PART_BYTES = 32 * 1024
"""Spark 4.0's server for Python's state takes what it has received so far for the whole message:
one that the kernel delivers in two pieces fails the task."""


class Buckets:
    """The content of each bucket, in parts, and the number of these.

    A map with one key for each part: a list would be read row by row, and a map that has to be
    searched took 20 s a batch.
    """

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        """Call it in `init` of the processor alone: Spark asks for the variables there."""
        self._parts = handle.getMapState(PARTS, "bucket bigint, part int", "content binary")
        self._counts = handle.getMapState(COUNTS, "bucket bigint", "parts int")

    def append(self, bucket: int, content: bytes) -> bool:
        """Adds to a bucket; returns whether it is a new one."""
        before = self._count(bucket)
        starts = range(0, len(content), _PART_BYTES)
        for part, start in enumerate(starts, before):
            self._parts.updateValue((bucket, part), (content[start : start + _PART_BYTES],))
        self._counts.updateValue((bucket,), (before + len(starts),))
        return before == 0

    def take(self, bucket: int) -> bytes:
        """Removes a bucket, and returns all that was added to it."""
        found = []
        for part in range(self._count(bucket)):
            value = self._parts.getValue((bucket, part))
            assert value is not None
            found.append(bytes(value[0]))
            self._parts.removeKey((bucket, part))
        self._counts.removeKey((bucket,))
        return b"".join(found)

    def _count(self, bucket: int) -> int:
        found = self._counts.getValue((bucket,))
        return 0 if found is None else int(found[0])
