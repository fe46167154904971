"""The table `episodes`: the episodes of the journal, brought up to date with what came since."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.records.durations import DAY_MS
from linear_retry.spark.history.episodes import KINDS, episodes, of_members, owners, taken_over
from linear_retry.spark.lake.changes import added, merge, noted, noting, version
from linear_retry.spark.lake.lake import EPISODES, JOURNAL, Lake
from linear_retry.spark.session import with_settings

NOTE = "linear-retry.journal-version-2"
"""With each change of the table: the version of the journal that it includes.

Where a table has no note of that name, the whole journal is read: it ends with a number that grows
with the columns.
"""
_INSTANCE = ("group", "member", "instance")
_ROW = (*_INSTANCE, "sequence")
_NEVER = 2**63 - 1
_TASKS = "spark.sql.shuffle.partitions"
_FEW = 4
_TASK_BYTES = 32 << 20
SMALL_BYTES = 8 << 20
"""Of the journal's files. So much is read whole in less time than the many small jobs take that
find what is new in it."""


def update_episodes(lake: Lake) -> dict[str, int]:
    """Brings the table `episodes` up to date with `journal`; returns the count of each kind.

    It reads what was ingested since the last call, and the entries since the beginning of what was
    open then; at first, where the lake no longer knows what is new, or where all of it is small,
    the whole journal. Killed at any point, call it again. Raises `LakeError` if no journal was
    ingested, or the lake cannot be written.
    """
    lake.table(JOURNAL)  # a missing journal is the first error
    until, since = version(lake, JOURNAL), noted(lake, EPISODES, NOTE)
    if since != until:
        # In the same commit: of two calls at once, the later commit would else be older than the
        # number, and what it lacks would stay missing.
        with noting(lake, NOTE, until):
            _bring_up_to_date(lake, since, until)
    counts = lake.table(EPISODES).groupBy("kind").count().collect()
    return dict.fromkeys(KINDS, 0) | {row["kind"]: row["count"] for row in counts}


def _bring_up_to_date(lake: Lake, since: int | None, until: int) -> None:
    journal = lake.table(JOURNAL, until)
    size = int(lake.detail(JOURNAL)["sizeInBytes"])
    new = None if size <= SMALL_BYTES else added(lake, JOURNAL, since, until)
    if new is None:
        # A shuffle, not `coalesce`, with which the few writing tasks would also compute the
        # episodes, and hold the memory of all of them until the end.
        lake.replace(episodes(journal).hint("rebalance"), EPISODES)
    else:
        with with_settings(lake.spark, {_TASKS: str(_tasks(lake, size))}):
            _update(lake, journal, new)


def _tasks(lake: Lake, size: int) -> int:
    """The tasks of a step, for no more than the whole journal.

    Spark's default is 200: for what a day adds, they took a minute, and the year itself less.
    """
    return min(int(lake.spark.conf.get(_TASKS) or 0), max(_FEW, size // _TASK_BYTES))


def _update(lake: Lake, journal: DataFrame, new: DataFrame) -> None:
    table = lake.table(EPISODES)
    # Checkpoints, and not what is merely cached: else each step would plan all before it again.
    cuts = _cuts(table, new).localCheckpoint()
    [(since,)] = cuts.agg(F.min("date")).collect()
    recent = journal.where(F.col("date") >= F.lit(since))
    last_owners = owners(recent).localCheckpoint()
    known = F.broadcast(cuts.drop("date"))
    found = taken_over(of_members(_entries(recent, known)), last_owners)
    found = found.join(known, [*_INSTANCE], "left_semi").localCheckpoint()
    replaced = table.join(known, [*_INSTANCE]).where("sequence >= cut").drop("cut")
    gone = replaced.join(found, [*_ROW], "left_anti")
    others = table.where("kind = 'open'").join(known, [*_INSTANCE], "left_anti")
    taken = taken_over(others, last_owners).where("kind = 'taken_over'")
    merge(lake, EPISODES, found.unionByName(taken), gone, on=_ROW)


def _entries(recent: DataFrame, cuts: DataFrame) -> DataFrame:
    """The entries of these members, those of an instance from its cut on.

    Of their other instances too: a later one shows that an earlier one has ended.
    """
    members = F.broadcast(cuts.select("group", "member").distinct())
    of_members = recent.join(members, ["group", "member"]).join(cuts, [*_INSTANCE], "left")
    return of_members.where("cut IS NULL OR sequence >= cut").drop("cut")


def _cuts(table: DataFrame, new: DataFrame) -> DataFrame:
    """By instance with anything new: the number of the entry from which its episodes change.

    No episode spans it: it is the first entry of one, or new itself. `date` is the day of the first
    record from there on, at the latest.
    """
    fresh = (
        new.where("problems IS NULL")
        .groupBy(*_INSTANCE)
        .agg(F.min("sequence").alias("fresh"), F.min("date").alias("date"))
    )
    members = F.broadcast(fresh.select("group", "member").distinct())
    spans = _spans(table.join(members, ["group", "member"]))
    changed = (
        spans.join(fresh.drop("date"), [*_INSTANCE], "left")
        # A new instance of a member ends what its last one left open.
        .where(F.coalesce(F.col("until") >= F.col("fresh"), "is_open"))
        .select(*_INSTANCE, F.col("sequence").alias("cut"), "date")
    )
    both = changed.unionByName(fresh.withColumnRenamed("fresh", "cut"))
    return both.groupBy(*_INSTANCE).agg(F.min("cut").alias("cut"), F.min("date").alias("date"))


def _spans(table: DataFrame) -> DataFrame:
    """The entries of overlapping episodes of an instance, in whatever scopes, from first to last.

    What has no close lasts until its scope is opened again, or for ever.
    """
    scope = Window.partitionBy(*_INSTANCE, "scope_topic", "scope_partition").orderBy("sequence")
    unclosed = F.coalesce(F.lead("sequence").over(scope), F.lit(_NEVER))
    until = F.when(F.col("closed_at_ms").isNull(), unclosed).otherwise(F.col("last_sequence"))
    in_order = Window.partitionBy(*_INSTANCE).orderBy("sequence")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    is_new = F.coalesce(F.col("sequence") > F.max("until").over(before), F.lit(True))
    # A record's own clock may be behind the member's, by days if that one is absurd.
    days = F.floor(F.coalesce("clock_ms", F.lit(0)) / DAY_MS).cast("int")
    return (
        table.withColumn("until", until)
        .withColumn("is_new", is_new.cast("int"))
        .withColumn("number", F.sum("is_new").over(in_order))
        .groupBy(*_INSTANCE, "number")
        .agg(
            F.min("sequence").alias("sequence"),
            F.max("until").alias("until"),
            F.max(F.col("kind").isin("open", "taken_over")).alias("is_open"),
            F.min(F.date_add("date", days)).alias("date"),
        )
    )
