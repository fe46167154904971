"""What has changed in a table of the lake, and changes to single rows of one."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.spark.errors import JavaError
from linear_retry.spark.lake.lake import Lake
from linear_retry.spark.session import with_settings

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
