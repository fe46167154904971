"""The lake: a directory of Delta tables, and how far each topic is ingested into it.

LAKE/dead_letters, LAKE/journal, LAKE/episodes     Delta tables
LAKE/_ingest/dead_letters/orders.dlq/TOPIC_ID/TABLE_ID
    Spark's checkpoint, for the topic and the table of these ids
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its usual name)
from pyspark.sql.types import StructType

from linear_retry.errors import LinearRetryError
from linear_retry.spark.session import (
    DELTA,
    JavaError,
    SparkMissingError,
    is_concurrent,
    last_cause,
)

DEAD_LETTERS = "dead_letters"
JOURNAL = "journal"
EPISODES = "episodes"

_PROPERTIES = {
    # Many small batches become one file once there are fifty, by the ingest that wrote them.
    "delta.autoOptimize.autoCompact": "true",
    # So `update_episodes` can read what is new. Rows that are added cost nothing more.
    "delta.enableChangeDataFeed": "true",
    # Without this list, Delta would also keep the least and greatest payload of each file.
    "delta.dataSkippingStatsColumns": "topic,partition,offset,timestamp,date",
}
_NO_DELTA = ("DATA_SOURCE_NOT_FOUND", "DELTA_CONFIGURE_SPARK_SESSION")


class LakeError(LinearRetryError):
    """The lake cannot be written or read, or its contents do not fit the request."""

    __module__ = "linear_retry.spark"  # its public name, for logs and dead letters


@dataclass(frozen=True, slots=True)
class Lake:
    """A directory of tables, on whatever file system Spark knows. `path` may be a URI."""

    spark: SparkSession
    path: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", self.path.rstrip("/"))

    def place(self, name: str) -> str:
        """Returns where the table is."""
        return f"{self.path}/{name}"

    def identifier(self, name: str) -> str:
        """Returns the table's name in SQL."""
        place = self.place(name).replace("`", "``")
        return f"delta.`{place}`"

    def detail(self, name: str) -> Row:
        """Returns what Delta Lake says of the table, such as its `id` and `numFiles`."""
        [row] = self.spark.sql(f"DESCRIBE DETAIL {self.identifier(name)}").collect()
        return row

    def table(self, name: str, version: int | None = None) -> DataFrame:
        """Returns the table with all ingested rows, or those of an earlier version.

        Raises `LakeError` if it does not exist, and `SparkMissingError` if the session has no
        Delta.
        """
        found = self._found(name)
        if found is None:
            command = "ingest" if name in (DEAD_LETTERS, JOURNAL) else name
            raise LakeError(
                f"{self.place(name)}: nothing is there yet; run `linear-retry spark {command}` "
                "first"
            )
        if version is None:
            return found
        reader = self.spark.read.format("delta").option("versionAsOf", version)
        return reader.load(self.place(name))

    def create(self, name: str, schema: StructType) -> None:
        """Creates an empty table of ingested records, unless there is one.

        Raises `LakeError` if it cannot be written, and what `table` raises but for a missing one.
        """
        if self._found(name) is not None:
            return
        try:
            with self.writing(name):
                empty = self.spark.createDataFrame([], schema)
                writer = empty.write.format("delta").mode("ignore").options(**_PROPERTIES)
                writer.save(self.place(name))
        except LakeError:
            if self._found(name) is None:  # else an ingest of another topic was faster
                raise

    def replace(self, rows: DataFrame, name: str) -> None:
        """Replaces the table by these rows, at once for every reader."""
        with self.writing(name):
            writer = rows.write.format("delta").mode("overwrite")
            writer.option("overwriteSchema", "true").save(self.place(name))

    def checkpoint(self, name: str, topic: str, topic_id: str) -> str:
        """Returns where Spark notes how far the topic is ingested into the table.

        A table that was deleted and created again has another id, and is ingested from the first
        record: with the old checkpoint, those before it would be missing.
        """
        # librdkafka writes an id in Base64 with slashes, which would be directories.
        directory = topic_id.replace("/", "_")
        return f"{self.path}/_ingest/{name}/{topic}/{directory}/{self.detail(name)['id']}"

    def has_begun(self, name: str, topic: str, topic_id: str) -> bool:
        """Whether Spark has noted in the checkpoint at which offsets it began.

        It does that after it has created the checkpoint, and not if its client fails before.
        """
        # Asked of Spark and not of a file system, so that Spark Connect can answer too.
        try:
            checkpoint = self.checkpoint(name, topic, topic_id)
            self.spark.read.text(f"{checkpoint}/sources/0/0").schema  # noqa: B018  (makes it look)
        except AnalysisException:  # no such file
            return False
        return True

    def topic_id(self, name: str, topic: str) -> str | None:
        """The id of the topic that the table's rows of that name are from; None without rows."""
        found = self._found(name)
        if found is None:
            return None
        row = found.where(F.col("topic") == topic).select("topic_id").first()
        return None if row is None else str(row["topic_id"])

    def next_offsets(self, name: str, topic: str) -> dict[int, int]:
        """By partition, the offset after the topic's last row.

        Everything before it is in the table: a batch has all records up to its last ones.
        """
        of_topic = self.table(name).where(F.col("topic") == topic)
        last = of_topic.groupBy("partition").agg(F.max("offset").alias("last")).collect()
        return {row["partition"]: row["last"] + 1 for row in last}

    def has(self, name: str) -> bool:
        """Whether the table exists; raises what `table` raises, but for a missing one."""
        return self._found(name) is not None

    def _found(self, name: str) -> DataFrame | None:
        try:
            found = self.spark.read.format("delta").load(self.place(name))
            found.schema  # noqa: B018  (makes Spark Connect look for it)
        except (PySparkException, JavaError) as error:
            if any(each in str(error) for each in _NO_DELTA):
                raise SparkMissingError(
                    f"the session has no Delta Lake; begin it with spark.jars.packages={DELTA}, "
                    "and the extension and catalog of docs/spark/ingest.md"
                ) from error
            if not isinstance(error, AnalysisException):
                raise
            return None
        return found

    @contextmanager
    def writing(self, name: str) -> Iterator[None]:
        """Raises what fails inside as `LakeError`."""
        try:
            yield
        except (PySparkException, JavaError) as error:
            text = str(error)
            problem = f"{last_cause(text)}; check the path and its permissions"
            if is_concurrent(text):
                problem = "another program changed the table meanwhile; run this again"
            raise LakeError(f"{self.place(name)}: {problem}") from error
