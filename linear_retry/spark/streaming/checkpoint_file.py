"""A small file beside Spark's own in a checkpoint, and the count of failures that one keeps.

It is written completely or not at all.
"""

import json
from typing import Any

from pyspark.sql import SparkSession

from linear_retry.records.json_fields import InvalidError, integer, read_object

_NAME = "linear-retry.json"
_WHOLE = "fs.capability.outputstream.abortable"
"""Hadoop's name for: a new file is there once its stream is closed, and not before."""


class CheckpointFile:
    """One file, in any of Hadoop's file systems.

    Each call may raise what Spark raises: `JavaError`, or one of PySpark's exceptions.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        java: Any = spark._jvm
        conf = spark._jsparkSession.sessionState().newHadoopConf()
        self._path = java.org.apache.hadoop.fs.Path(path)
        self._checksum = java.org.apache.hadoop.fs.Path(
            self._path.getParent(), f".{self._path.getName()}.crc"
        )
        self._system = self._path.getFileSystem(conf)
        # Spark's own way to write into a checkpoint.
        self._files = java.org.apache.spark.sql.execution.streaming.CheckpointFileManager.create(
            self._path, conf
        )

    def read(self) -> bytes | None:
        """Returns the content; None if there is no such file."""
        if not self._files.exists(self._path):
            return None
        stream = self._files.open(self._path)
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def write(self, content: bytes) -> None:
        """Replaces the file. A process that is killed amid it leaves the old one or the new one."""
        self._files.mkdirs(self._path.getParent())
        if self._system.hasPathCapability(self._path, _WHOLE):
            # S3. A rename there deletes what it replaces, and copies: killed between, neither
            # would be left.
            stream = self._system.create(self._path, True)
        else:
            # A local disk's checksums are files, moved after theirs: beside the new content, that
            # of the old one would make it unreadable.
            self._files.delete(self._checksum)
            stream = self._files.createAtomic(self._path, True)
        stream.write(content)
        stream.close()


class FailureCount:
    """The count of one query, which a restart does not set back."""

    def __init__(self, session: SparkSession, query: Any) -> None:
        """`query`: Spark's own object of the running query."""
        self._file = CheckpointFile(session, f"{query.resolvedCheckpointRoot()}/{_NAME}")

    def read(self, number: int) -> tuple[int, int] | None:
        """How often the micro-batch has failed, and when first (UTC ms); None if that is not kept.

        A file of another micro-batch, or one that somebody else has written, counts as none.
        """
        content = self._file.read()
        if content is None:
            return None
        try:
            found = read_object(content)
            kept = [integer(name, found.get(name)) for name in ("batch", "failures", "first_ms")]
        except InvalidError:
            return None
        batch, failures, first_ms = kept
        return (failures, first_ms) if batch == number and failures > 0 else None

    def write(self, number: int, failures: int, first_ms: int) -> None:
        """Replaces the file."""
        kept = {"batch": number, "failures": failures, "first_ms": first_ms}
        self._file.write(json.dumps(kept).encode())
