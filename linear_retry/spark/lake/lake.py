"""Where in the lake does each table lie, and what says how far it is?

    LAKE/dead_letters/batch=orders.dlq@00000000/date=2026-11-21/part-....parquet
    LAKE/journal/batch=linear-retry.journal@00000000/date=2026-11-21/part-....parquet
    LAKE/_ingest/dead_letters/orders.dlq/        Spark's checkpoint, what topic it is of, the lock
    LAKE/_unfinished/...                         a batch that is being written

A batch is written beside its table and then renamed into it: so whoever reads the files of a table,
with Spark, DuckDB or pyarrow, finds of each batch all or nothing, whatever was killed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from linear_retry.errors import LinearRetryError
from linear_retry.spark.errors import JavaError
from linear_retry.spark.lake.lock import TakenError, lock

DEAD_LETTERS = "dead_letters"
JOURNAL = "journal"

_TOPIC_FILE = "topic.json"


class LakeError(LinearRetryError):
    """The lake cannot be written or read, or what is in it does not fit what is asked."""


@dataclass(frozen=True, slots=True)
class Lake:
    """A directory of tables, on whatever file system Spark knows. `path` may be a URI."""

    spark: SparkSession
    path: str

    def classic(self) -> SparkSession:
        """Its session. Raises `LakeError` for one of Spark Connect, which has no JVM to reach."""
        if not isinstance(self.spark, SparkSession):
            raise LakeError(
                f"{self.path}: over Spark Connect a lake can be read, but neither written nor "
                "replayed; use a classic session: local, of a cluster, or by spark-submit"
            )
        return self.spark

    def table(self, name: str) -> DataFrame:
        """What was ingested so far. Raises `LakeError` where that is nothing."""
        root = f"{self.path}/{name}"
        try:
            found = self.spark.read.option("basePath", root).parquet(root).drop("batch")
            found.schema  # noqa: B018  (Spark Connect looks what is there when it is asked this)
        except AnalysisException as error:  # no such directory, or no file in it
            command = "ingest" if name in (DEAD_LETTERS, JOURNAL) else name
            raise LakeError(
                f"{root}: nothing is there yet; run `linear-retry spark {command}` first"
            ) from error
        return found

    def prepare(self, table: str, topic: str) -> None:
        """Make the directories. Raises `LakeError` where they cannot be written."""
        for place in (f"{self.path}/{table}", self.state(table, topic), self._unfinished(table)):
            self._make(place)
        probe = f"{self._unfinished(table)}/probe-{topic}"
        self._make(probe)
        self._delete(probe)

    @contextmanager
    def alone(self, table: str, topic: str) -> Iterator[Callable[[], None]]:
        """Nobody else adds this topic's rows meanwhile; what is given is called every second or so.

        Raises `LakeError` where somebody else does, at once or in that call.
        """
        place = f"{self.state(table, topic)}/lock"
        with self._telling(place, topic):
            held = lock(self.classic()._jvm, *self._at(place))

        def renew() -> None:
            with self._telling(place, topic):
                held.renew()

        try:
            yield renew
        finally:
            with self._telling(place, topic):
                held.release()

    def state(self, table: str, topic: str) -> str:
        return f"{self.path}/_ingest/{table}/{topic}"

    def checkpoint(self, table: str, topic: str) -> str:
        return f"{self.state(table, topic)}/checkpoint"

    def topic_id(self, table: str, topic: str) -> str | None:
        """Which topic of that name the table is of; None where nothing was ingested yet."""
        place = f"{self.state(table, topic)}/{_TOPIC_FILE}"
        return self._read(place) if self._exists(place) else None

    def keep_topic_id(self, table: str, topic: str, topic_id: str) -> None:
        place = f"{self.state(table, topic)}/{_TOPIC_FILE}"
        self._write(f"{place}.new", topic_id)
        self._rename(f"{place}.new", place)

    def has_checkpoint(self, table: str, topic: str) -> bool:
        return self._exists(f"{self.checkpoint(table, topic)}/metadata")

    def has_batches(self, table: str, topic: str) -> bool:
        root = f"{self.path}/{table}"
        wanted = f"batch={topic}@"
        return self._exists(root) and any(each.startswith(wanted) for each in self._names(root))

    def keep(self, rows: DataFrame, table: str, topic: str, batch_id: int) -> bool:
        """Add the rows of one batch to a table; False where they are there already.

        Spark gives a batch again that it has not noted as done, with the same id and rows.
        """
        name = f"batch={topic}@{batch_id:08d}"
        target = f"{self.path}/{table}/{name}"
        unfinished = f"{self._unfinished(table)}/{name}"
        # Both are there where a rename is a copy, as in object stores, and was cut short.
        if self._exists(target) and not self._exists(unfinished):
            return False
        self.write(rows.coalesce(self.classic().sparkContext.defaultParallelism), unfinished)
        self.publish(unfinished, target)
        return True

    def write(self, rows: DataFrame, place: str) -> None:
        """Write the rows as a directory of Parquet files, by date; what was there before goes.

        Of each date there are as many files as tasks have rows of it.
        """
        rows.write.mode("overwrite").partitionBy("date").option(
            "mapreduce.fileoutputcommitter.marksuccessfuljobs", "false"
        ).parquet(place)

    def publish(self, unfinished: str, target: str) -> None:
        """Have it found in its table, at once."""
        self._delete(target)
        if self._exists(unfinished):
            self._rename(unfinished, target)

    def _unfinished(self, table: str) -> str:
        return f"{self.path}/_unfinished/{table}"

    # Hadoop's file systems, by way of the JVM: the lake may be in one that Python cannot reach.

    def _at(self, place: str) -> tuple[Any, Any]:
        spark = self.classic()
        jvm: Any = spark._jvm
        path = jvm.org.apache.hadoop.fs.Path(place)
        return path.getFileSystem(spark._jsc.hadoopConfiguration()), path

    def _exists(self, place: str) -> bool:
        return bool(self._call(place, "exists"))

    def _names(self, place: str) -> list[str]:
        return [each.getPath().getName() for each in self._call(place, "listStatus")]

    def _make(self, place: str) -> None:
        if not self._call(place, "mkdirs"):
            raise LakeError(f"{place}: the directory cannot be made; check its permissions")

    def _delete(self, place: str) -> None:
        self._call(place, "delete", True)

    def _rename(self, place: str, target: str) -> None:
        if not self._call(place, "rename", self._at(target)[1]):
            raise LakeError(f"{place}: cannot be renamed to {target}; does it exist already?")

    def _read(self, place: str) -> str:
        content = self._call(place, "open")
        try:
            return bytes(content.readAllBytes()).decode()
        finally:
            content.close()

    def _write(self, place: str, text: str) -> None:
        content = self._call(place, "create", True)
        try:
            content.write(text.encode())
        finally:
            content.close()

    def _call(self, place: str, method: str, *arguments: object) -> Any:
        with self._telling(place):
            files, path = self._at(place)
            return getattr(files, method)(path, *arguments)

    @contextmanager
    def _telling(self, place: str, topic: str = "") -> Iterator[None]:
        try:
            yield
        except TakenError as error:
            raise LakeError(
                f"{self.path}: another ingest is adding the rows of {topic!r}; wait until it has "
                "ended, and run this again"
            ) from error
        except JavaError as error:
            reason = str(error.java_exception.toString()).partition("\n")[0]
            raise LakeError(f"{place}: {reason}; check the path and its permissions") from error
