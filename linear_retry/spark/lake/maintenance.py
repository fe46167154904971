"""Compacts the small files of the lake's tables, and converts tables of the old layout."""

from dataclasses import dataclass
from urllib.parse import unquote

from delta.tables import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.spark.history.table import EPISODES
from linear_retry.spark.lake.lake import DEAD_LETTERS, JOURNAL, PROPERTIES, Lake, LakeError


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


def convert(lake: Lake) -> dict[str, int]:
    """Converts tables of the layout before Delta Lake; returns the count of rows of each.

    Killed and called again, it starts from the beginning; readers see the old table or all of the
    new one. The old files stay until `optimize` removes them, once they are a week old.
    Raises `LakeError` if there is no such table, if an ingest was killed while it published a
    batch, or if the table cannot be written.
    """
    found = {name: old for name in (DEAD_LETTERS, JOURNAL) if (old := lake.old(name)) is not None}
    if not found:
        raise LakeError(f"{lake.path}: no table has the layout before Delta Lake")
    for name, old in found.items():
        _require_whole(lake, name, old)
    return {name: _converted(lake, name, old) for name, old in found.items()}


def _require_whole(lake: Lake, name: str, old: DataFrame) -> None:
    """Raises `LakeError` if a part of a batch is still where the old ingest had written it.

    On an object store a rename is a copy: killed meanwhile, neither directory had all of the batch,
    and an ingest into the converted table would begin after it.
    """
    written = f"{lake.path}/_unfinished/{name}"
    reader = lake.spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        files = reader.load(f"{written}/batch=*").inputFiles()
    except AnalysisException:  # no such directory
        return
    if torn := sorted(_batches(files) & _batches(old.inputFiles())):
        places = ", ".join(f"{place}/{torn[0]}" for place in (lake.place(name), written))
        raise LakeError(
            f"{places}: an ingest was killed while it published this batch; complete it by an "
            "ingest of the release that began it, or, if its records are still in the topic, "
            "delete both directories: the next ingest reads them again"
        )


def _batches(files: list[str]) -> set[str]:
    return {part for file in files for part in unquote(file).split("/") if part[:6] == "batch="}


def _converted(lake: Lake, name: str, old: DataFrame) -> int:
    topics = [str(row["topic"]) for row in old.select("topic").distinct().collect()]
    ids = [F.lit(text) for topic in topics for text in (topic, _topic_id(lake, name, topic))]
    rows = old.withColumn("topic_id", F.create_map(*ids)[F.col("topic")])
    with lake.writing(name):
        rows.write.format("delta").mode("append").options(**PROPERTIES).save(lake.place(name))
    return lake.table(name).count()


def _topic_id(lake: Lake, name: str, topic: str) -> str:
    place = f"{lake.path}/_ingest/{name}/{topic}/topic.json"
    try:
        return str(lake.spark.read.text(place).collect()[0]["value"])
    except AnalysisException as error:
        raise LakeError(
            f"{place}: is not there, and so nothing says which topic {topic!r} was ingested; "
            "ingest it into a new lake"
        ) from error
