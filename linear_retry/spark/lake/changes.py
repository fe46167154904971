"""What has changed in a table of the lake, changes to single rows of one, and compaction."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from delta.tables import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.spark.lake.lake import DEAD_LETTERS, EPISODES, JOURNAL, Lake, LakeError
from linear_retry.spark.session import JavaError, with_settings

_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_NO_CHANGES = ("OPTIMIZE", "VACUUM START", "VACUUM END")


def version(lake: Lake, name: str) -> int:
    """The number of the table's latest version, which grows with each commit."""
    row = lake.spark.sql(f"DESCRIBE HISTORY {lake.identifier(name)} LIMIT 1").collect()[0]
    return int(row["version"])


def added(lake: Lake, name: str, since: int | None, until: int) -> DataFrame | None:
    """The rows added after the version `since`, up to `until`; None where that is not known.

    It is not if the table has no change data feed, was replaced, or has removed the files since.
    """
    if since is None or since >= until:
        return None
    reader = lake.spark.read.format("delta").option("readChangeFeed", "true")
    options = {"startingVersion": since + 1, "endingVersion": until}
    try:
        found = reader.options(**options).load(lake.place(name))
        inserted = found.where("_change_type = 'insert'").drop(
            "_change_type", "_commit_version", "_commit_timestamp"
        )
        inserted.agg(F.max("offset")).collect()  # fails if a vacuum has removed files
    except (PySparkException, JavaError):  # the reader of the whole table tells why, if it fails
        return None
    return inserted


@contextmanager
def noting(lake: Lake, key: str, value: int) -> Iterator[None]:
    """Keeps a number with what is committed inside: both are there, or neither."""
    with with_settings(lake.spark, {_METADATA: f"{key}={value}"}):
        yield


def noted(lake: Lake, name: str, key: str) -> int | None:
    """The number that the last change of rows came with; None without one, or without the table.

    None too if that change was another program's, such as a RESTORE.
    """
    if not lake.has(name):
        return None
    history = lake.spark.sql(f"DESCRIBE HISTORY {lake.identifier(name)}")
    changes = history.where(~F.col("operation").isin(*_NO_CHANGES))
    last = changes.orderBy(F.desc("version")).first()
    found, _, value = (last["userMetadata"] or "").partition("=") if last else ("", "", "")
    return int(value) if found == key else None


def merge(lake: Lake, name: str, rows: DataFrame, gone: DataFrame, *, on: Sequence[str]) -> None:
    """Updates or inserts `rows`, and deletes `gone`, by the columns `on`, in one commit.

    It commits also where nothing changes: else what `noting` keeps would not be kept.
    """
    before = version(lake, name)
    source = rows.withColumn("is_gone", F.lit(False)).unionByName(
        gone.withColumn("is_gone", F.lit(True))
    )
    is_same = " AND ".join(f"t.`{each}` = s.`{each}`" for each in on)
    with lake.writing(name):
        lake.spark.sql(
            f"MERGE INTO {lake.identifier(name)} AS t USING {{source}} AS s ON {is_same} "
            "WHEN MATCHED AND s.is_gone THEN DELETE WHEN MATCHED THEN UPDATE SET * "
            "WHEN NOT MATCHED AND NOT s.is_gone THEN INSERT *",
            source=source,
        )
        if version(lake, name) == before:  # Delta Lake leaves out a MERGE of no rows
            properties = f"'linear-retry.looked-at' = '{before}'"
            lake.spark.sql(f"ALTER TABLE {lake.identifier(name)} SET TBLPROPERTIES ({properties})")


@dataclass(frozen=True, slots=True)
class Optimized:
    """How many files hold a table's rows, before and after, and their size after it."""

    table: str
    files_before: int
    files: int
    size_bytes: int


def optimize(lake: Lake) -> tuple[Optimized, ...]:
    """Compacts small files, and removes those that no reader of the last week needs.

    Readers may go on meanwhile, and an ingest too, but not on S3, where two drivers that write at
    once may lose one's batch. Needs a classic session, not one of Spark Connect.
    Raises `LakeError` if the lake has no tables, or cannot be written.
    """
    _require_classic(lake)
    names = [name for name in (DEAD_LETTERS, JOURNAL, EPISODES) if lake.has(name)]
    if not names:
        lake.table(DEAD_LETTERS)  # raises, and says what to run
    return tuple(_optimized(lake, name) for name in names)


def _require_classic(lake: Lake) -> None:
    if not isinstance(lake.spark, SparkSession):
        raise LakeError(
            f"{lake.path}: `optimize` needs a part of Delta Lake that Spark Connect has only with "
            "a plugin of the server; use a classic session: local, of a cluster, or by spark-submit"
        )


def _optimized(lake: Lake, name: str) -> Optimized:
    with lake.writing(name):
        table = DeltaTable.forPath(lake.spark, lake.place(name))
        before = lake.detail(name)["numFiles"]
        table.optimize().executeCompaction()
        # The default is Delta's `deletedFileRetentionDuration`: files that were replaced in the
        # last week stay for readers that have begun with them.
        table.vacuum()
        after = lake.detail(name)
    return Optimized(name, before, after["numFiles"], after["sizeInBytes"])
