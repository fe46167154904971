"""Outages of a dependency: the episodes of a group that belong together, as one row."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.errors import ConfigurationError
from linear_retry.journal.outages import GIVEN_UP, LEFT_LINE
from linear_retry.records.durations import DAY_MS
from linear_retry.spark.tables.sql import LAST_MS, date_of

_MESSAGE = ("message_topic", "message_partition", "message_offset")


def group_outages(episodes: DataFrame, *, skew_s: float = 1.0) -> DataFrame:
    """One row for each outage of each group, from the rows of its members' `episodes`.

    What several members, scopes and partitions of a group saw at overlapping times is one outage,
    even if only others connect them. An episode without a close lasts until the next attempt, if
    it is open, and until its message fails again. `skew_s`: by how much the members' clocks may
    differ; episodes that are no further apart are one outage, too. Where the journal's topic has
    `message.timestamp.type=LogAppendTime`, all times are on the brokers' clock. docs/spark/outages
    has the columns. Raises `ConfigurationError` if `skew_s` is negative.
    """
    if skew_s < 0:
        raise ConfigurationError(f"skew_s={skew_s}: give 0 seconds or more")
    return (
        _numbered(_with_ends(_timed(episodes)), round(skew_s * 1000))
        .groupBy("group", "number")
        .agg(*_aggregates())
        .select(*_columns())
    )


def _timed(episodes: DataFrame) -> DataFrame:
    """Adds the times of each episode on one clock: its beginning, its end, its attempts."""
    # More than a day is no clock's error: somebody has copied the topic.
    is_clock = F.col("clock_ms").between(-DAY_MS, DAY_MS)
    clock_ms = F.when(is_clock, F.col("clock_ms")).otherwise(0)
    # A close says how long it was open; a journal may contain any number.
    open_ms = F.when(F.col("open_s").between(0, LAST_MS / 1000), F.col("open_s") * 1000)
    since_ms = F.col("last_at_ms") - F.coalesce(open_ms.cast("bigint"), F.lit(0))
    began_ms = F.coalesce(F.col("opened_at_ms"), since_ms) + clock_ms
    ended_ms = F.greatest(began_ms, F.col("last_at_ms") + clock_ms)
    opened_ms = F.when(F.col("lower_ms").isNotNull(), began_ms)
    return episodes.withColumns(
        {
            "began_ms": began_ms,
            "ended_ms": ended_ms,
            "retry_ms": F.when(F.col("kind") == "open", F.col("retry_at_ms") + clock_ms),
            "first_ms": opened_ms,
            "failed_ms": opened_ms + F.col("lower_ms"),
            "good_ms": opened_ms + F.col("upper_ms"),
        }
    )


def _with_ends(timed: DataFrame) -> DataFrame:
    """Adds the time until which each lasts."""
    # In this order the frame only grows: in the other, Spark would sum up the rest for each row.
    latest_first = Window.partitionBy("group", *_MESSAGE).orderBy(F.desc("began_ms"))
    again_ms = F.min("began_ms").over(latest_first.rangeBetween(Window.unboundedPreceding, -1))
    until_ms = F.greatest("ended_ms", "retry_ms")
    is_same = (
        F.col("outcome").isNull()
        & F.col("message_topic").isNotNull()
        & (again_ms <= until_ms + DAY_MS)
    )
    return timed.withColumn("until_ms", F.greatest(until_ms, F.when(is_same, again_ms)))


def _numbered(timed: DataFrame, skew_ms: int) -> DataFrame:
    """Adds the number of the outage: it grows where nothing before was open any more."""
    in_order = Window.partitionBy("group").orderBy("began_ms", "ended_ms")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    until_ms = F.max("until_ms").over(before) + skew_ms
    is_new = F.coalesce(F.col("began_ms") > until_ms, F.lit(False))
    numbered = timed.withColumn("is_new", is_new.cast("bigint"))
    return numbered.withColumn("number", F.sum("is_new").over(in_order))


def _aggregates() -> list[Column]:
    message = F.struct(*_MESSAGE)
    earliest = F.struct("began_ms", "error", "error_type")
    return [
        F.min("began_ms").alias("opened_at_ms"),
        F.max("ended_ms").alias("last_at_ms"),
        F.count("*").alias("episodes"),
        F.size(F.collect_set("member")).alias("members"),
        F.size(F.collect_set(F.when(F.col("message_topic").isNotNull(), message))).alias(
            "messages"
        ),
        F.sum(F.size("probes") + 1).alias("attempts"),
        F.sum("letters").alias("letters"),
        count_if("recovered", F.col("outcome") == "recovered"),
        count_if("given_up", F.col("outcome").isin(*GIVEN_UP)),
        count_if("left_line", F.col("outcome").isin(*LEFT_LINE)),
        count_if("still_open", F.col("kind") == "open"),
        F.sum("missing").alias("missing"),
        F.min(F.when(F.col("error").isNotNull(), earliest)).alias("earliest"),
        F.min("first_ms").alias("first_ms"),
        F.max("failed_ms").alias("failed_ms"),
        F.collect_list("good_ms").alias("good_ms"),
    ]


def _columns() -> list[Column]:
    # A success before the last failure was another part of the dependency, or a clock's error.
    later = F.filter("good_ms", lambda each: each >= F.col("failed_ms"))
    return [
        *(F.col(name) for name in ("group", "opened_at_ms", "last_at_ms")),
        ((F.col("last_at_ms") - F.col("opened_at_ms")) / 1000).alias("open_s"),
        *(F.col(name) for name in ("episodes", "members", "messages", "attempts", "letters")),
        *(F.col(name) for name in ("recovered", "given_up", "left_line", "still_open", "missing")),
        *(F.col("earliest")[name].alias(name) for name in ("error", "error_type")),
        (F.col("failed_ms") - F.col("first_ms")).alias("lower_ms"),
        (F.array_min(later) - F.col("first_ms")).alias("upper_ms"),
        F.expr(date_of("timestamp_millis(opened_at_ms)")).alias("date"),
    ]


def count_if(name: str, condition: Column) -> Column:
    """The number of rows for which the condition is true."""
    return F.count_if(condition).alias(name)
