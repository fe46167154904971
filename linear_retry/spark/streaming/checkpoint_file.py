"""A small file beside Spark's own in a checkpoint, written completely or not at all."""

from typing import Any

from pyspark.sql import SparkSession

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
