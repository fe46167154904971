"""The lake: a directory of Parquet tables, and how far each topic is ingested into it.

    LAKE/dead_letters/batch=orders.dlq@00000000/date=2026-11-21/part-....parquet
    LAKE/journal/batch=linear-retry.journal@00000000/date=2026-11-21/part-....parquet
    LAKE/_ingest/dead_letters/orders.dlq/        Spark's checkpoint, the topic's id, the lock
    LAKE/_unfinished/...                         a batch that is being written

A batch is written beside its table and then renamed into it: Spark, DuckDB and pyarrow find all of
a batch or nothing, whatever was killed meanwhile.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from linear_retry.errors import LinearRetryError
from linear_retry.spark.errors import JavaError
from linear_retry.spark.lake.lock import LockedError, lock, read_text, write_text

DEAD_LETTERS = "dead_letters"
JOURNAL = "journal"

_TOPIC_FILE = "topic.json"


class LakeError(LinearRetryError):
    """The lake cannot be written or read, or its contents do not fit the request."""


@dataclass(frozen=True, slots=True)
class Lake:
    """A directory of tables, on whatever file system Spark knows. `path` may be a URI."""

    spark: SparkSession
    path: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", self.path.rstrip("/"))

    def require_classic(self) -> SparkSession:
        """Returns its session; raises `LakeError` for one of Spark Connect, which has no JVM."""
        if not isinstance(self.spark, SparkSession):
            raise LakeError(
                f"{self.path}: over Spark Connect a lake can be read, but neither written nor "
                "replayed; use a classic session: local, of a cluster, or by spark-submit"
            )
        return self.spark

    def table(self, name: str) -> DataFrame:
        """Returns the table with all ingested rows. Raises `LakeError` if it does not exist."""
        root = f"{self.path}/{name}"
        try:
            found = self.spark.read.option("basePath", root).parquet(root).drop("batch")
            found.schema  # noqa: B018  (makes Spark Connect read the directory)
        except AnalysisException as error:  # no such directory, or no file in it
            command = "ingest" if name in (DEAD_LETTERS, JOURNAL) else name
            raise LakeError(
                f"{root}: nothing is there yet; run `linear-retry spark {command}` first"
            ) from error
        return found

    def prepare(self, table: str, topic: str) -> None:
        """Makes the directories. Raises `LakeError` if they cannot be made."""
        for place in (f"{self.path}/{table}", self.state(table, topic), self._unfinished(table)):
            self._make(place)

    @contextmanager
    def locked(self, table: str, topic: str) -> Iterator[Callable[[], None]]:
        """Holds the lock on this topic's rows; gives a function to call every second or so.

        Raises `LakeError` if another process has the lock, or takes it over.
        """
        place = f"{self.state(table, topic)}/lock"
        with self._errors_of(place, topic):
            held = lock(self.require_classic()._jvm, *self._at(place))

        def renew() -> None:
            with self._errors_of(place, topic):
                held.renew()

        try:
            yield renew
        finally:
            with self._errors_of(place, topic):
                held.release()

    def state(self, table: str, topic: str) -> str:
        return f"{self.path}/_ingest/{table}/{topic}"

    def checkpoint(self, table: str, topic: str) -> str:
        return f"{self.state(table, topic)}/checkpoint"

    def topic_id(self, table: str, topic: str) -> str | None:
        """The id of the topic that the rows are of; None if nothing was ingested yet."""
        place = f"{self.state(table, topic)}/{_TOPIC_FILE}"
        if not self._exists(place):
            return None
        with self._errors_of(place):
            return read_text(*self._at(place))

    def write_topic_id(self, table: str, topic: str, topic_id: str) -> None:
        place = f"{self.state(table, topic)}/{_TOPIC_FILE}"
        with self._errors_of(place):
            write_text(*self._at(f"{place}.new"), topic_id)
        self._rename(f"{place}.new", place)

    def has_checkpoint(self, table: str, topic: str) -> bool:
        return self._exists(f"{self.checkpoint(table, topic)}/metadata")

    def has_batches(self, table: str, topic: str) -> bool:
        root = f"{self.path}/{table}"
        wanted = f"batch={topic}@"
        return self._exists(root) and any(each.startswith(wanted) for each in self._names(root))

    def add(self, rows: DataFrame, table: str, topic: str, batch_id: int) -> bool:
        """Adds the rows of one batch to a table; False if they are there already.

        Spark gives a batch again that it has not noted as done, with the same id and rows.
        """
        name = f"batch={topic}@{batch_id:08d}"
        target = f"{self.path}/{table}/{name}"
        unfinished = f"{self._unfinished(table)}/{name}"
        # Both exist if a rename is a copy, as in object stores, and was interrupted.
        if self._exists(target) and not self._exists(unfinished):
            return False
        self.write(
            rows.coalesce(self.require_classic().sparkContext.defaultParallelism), unfinished
        )
        self.publish(unfinished, target)
        return True

    def write(self, rows: DataFrame, place: str) -> None:
        """Replaces the directory `place` by Parquet files of these rows, by date.

        Each date has as many files as tasks have rows of it.
        """
        rows.write.mode("overwrite").partitionBy("date").option(
            "mapreduce.fileoutputcommitter.marksuccessfuljobs", "false"
        ).parquet(place)

    def publish(self, unfinished: str, target: str) -> None:
        """Renames a directory into its table."""
        self._delete(target)
        if self._exists(unfinished):
            self._rename(unfinished, target)

    def _unfinished(self, table: str) -> str:
        return f"{self.path}/_unfinished/{table}"

    # Hadoop's file systems, through the JVM: the lake may be in one that Python cannot reach.

    def _at(self, place: str) -> tuple[Any, Any]:
        spark = self.require_classic()
        jvm: Any = spark._jvm
        path = jvm.org.apache.hadoop.fs.Path(place)
        return path.getFileSystem(spark._jsc.hadoopConfiguration()), path

    def _exists(self, place: str) -> bool:
        return bool(self._call(place, "exists"))

    def _names(self, place: str) -> list[str]:
        return [each.getPath().getName() for each in self._call(place, "listStatus")]

    def _make(self, place: str) -> None:
        if not self._call(place, "mkdirs"):
            raise LakeError(f"{place}: the directory cannot be created; check its permissions")

    def _delete(self, place: str) -> None:
        self._call(place, "delete", True)

    def _rename(self, place: str, target: str) -> None:
        if not self._call(place, "rename", self._at(target)[1]):
            raise LakeError(f"{place}: cannot be renamed to {target}; does it exist already?")

    def _call(self, place: str, method: str, *arguments: object) -> Any:
        with self._errors_of(place):
            files, path = self._at(place)
            return getattr(files, method)(path, *arguments)

    @contextmanager
    def _errors_of(self, place: str, topic: str = "") -> Iterator[None]:
        try:
            yield
        except LockedError as error:
            raise LakeError(
                f"{self.path}: another ingest is adding the rows of {topic!r}; wait until it has "
                "ended, and run this again"
            ) from error
        except JavaError as error:
            reason = str(error.java_exception.toString()).partition("\n")[0]
            raise LakeError(f"{place}: {reason}; check the path and its permissions") from error
