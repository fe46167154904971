"""Counts outages by group, time and error, and adds up the time that they blocked.

Of the time that a circuit was open, `down_s` is up to the last attempt that failed, and `unsure_s`
from there to the first good one, in which the dependency came back; `other_s` is the rest if no
recovery is known.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.spark.tables.sql import LAST_MS

GIVEN_UP = ("dead-lettered", "skipped")
LEFT_LINE = ("sent-to-retry", "handed-over")
"""Its message may still be handled, by the retry line or the callback: it is not given up."""
_ENDINGS = ("recovered", "given_up", "left_line")
_TIMES = ("blocked_s", "down_s", "unsure_s", "other_s")


def measured(outages: DataFrame) -> DataFrame:
    """Each row of the table, with the columns that the summaries need."""
    began_ms = F.coalesce("opened_at_ms", "last_at_ms")
    seen_s = F.greatest(F.col("last_at_ms") - began_ms, F.lit(0)) / 1000
    # A journal may contain any number, but sums of seconds must stay finite.
    blocked = F.coalesce(
        F.when(F.col("open_s").between(0, LAST_MS / 1000), F.col("open_s")), seen_s
    )
    known = outages.withColumn("began_ms", began_ms).withColumn("blocked_s", blocked)
    # `least` ignores NULL: an unknown duration would count as down entirely.
    down = F.least(F.coalesce(F.col("lower_ms"), F.lit(0)) / 1000, "blocked_s")
    has_end = F.col("upper_ms").isNotNull()
    rest = F.col("blocked_s") - F.col("down_s")
    return known.withColumn("down_s", down).select(
        *("group", "member", "began_ms", "last_at_ms", "kind", "missing", "lower_ms", "upper_ms"),
        *("blocked_s", "down_s"),
        F.when(has_end, rest).otherwise(0.0).alias("unsure_s"),
        F.when(~has_end, rest).otherwise(0.0).alias("other_s"),
        simple_name(F.col("error_type")).alias("error"),
        (F.size("probes") + 1).alias("attempts"),
        F.coalesce(F.col("outcome") == "recovered", F.lit(False)).alias("recovered"),
        F.coalesce(F.col("outcome").isin(*GIVEN_UP), F.lit(False)).alias("given_up"),
        F.coalesce(F.col("outcome").isin(*LEFT_LINE), F.lit(False)).alias("left_line"),
    )


def by_group(outages: DataFrame) -> DataFrame:
    """One row for each group; the longest blocked first."""
    return (
        outages.groupBy("group")
        .agg(
            F.count("*").alias("outages"),
            F.count_distinct("member").alias("members"),
            *(_count(name, F.col(name)) for name in _ENDINGS),
            _count("known_end", F.col("upper_ms").isNotNull()),
            _count("unknown_length", F.col("lower_ms").isNull()),
            _count("still_open", F.col("kind") == "open"),
            _count("with_missing_entries", F.col("missing") > 0),
            *_first_and_last(),
            *(F.sum(name).alias(name) for name in _TIMES),
            F.sum("attempts").alias("failed_attempts"),
        )
        .orderBy(F.desc("blocked_s"), "group")
    )


def over_time(outages: DataFrame, bucket_ms: int) -> DataFrame:
    """The outages that began in each bucket of time, by group, and how long they were open."""
    return (
        outages.groupBy("group", bucket(F.col("began_ms"), bucket_ms).alias("from_ms"))
        .agg(F.count("*").alias("outages"), F.sum("blocked_s").alias("blocked_s"))
        .withColumn("until_ms", F.col("from_ms") + bucket_ms)
        .orderBy(F.desc("blocked_s"), "from_ms", "group")
    )


def by_error(outages: DataFrame) -> DataFrame:
    """By group and first error: how many recovered and were given up."""
    return outages.groupBy("group", "error").agg(
        F.count("*").alias("outages"),
        *(_count(name, F.col(name)) for name in _ENDINGS),
        *_first_and_last(),
    )


def bucket(at_ms: Column, bucket_ms: int) -> Column:
    """The beginning of the bucket of time that `at_ms` is in."""
    return (F.floor(at_ms / bucket_ms) * bucket_ms).cast("bigint")


def simple_name(error_type: Column) -> Column:
    """A type's name without its module, which the journal often lacks."""
    return F.substring_index(error_type, ".", -1)


def _count(name: str, condition: Column) -> Column:
    return F.count(F.when(condition, 1)).alias(name)


def _first_and_last() -> list[Column]:
    return [F.min("began_ms").alias("first_ms"), F.max("last_at_ms").alias("last_ms")]
