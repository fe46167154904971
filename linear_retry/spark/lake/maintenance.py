"""Compacts the small files of the lake's tables."""

from dataclasses import dataclass

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from linear_retry.spark.lake.lake import DEAD_LETTERS, EPISODES, JOURNAL, Lake, LakeError


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
