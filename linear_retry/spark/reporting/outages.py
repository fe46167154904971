"""Counts outages by group, time and error, and adds up the time that they blocked.

Of the time that an outage blocked, `down_s` is up to the last attempt that failed, and `unsure_s`
the rest, in which the dependency came back; all of the rest is `other_s` if no recovery is known.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.spark.history.outages import count_if, group_outages

_ENDINGS = ("recovered", "given_up", "left_line")
_TIMES = ("blocked_s", "down_s", "unsure_s", "other_s")


def measured(episodes: DataFrame) -> DataFrame:
    """Each outage of the episodes in the table, with the columns that the summaries need."""
    known = group_outages(episodes).withColumnsRenamed(
        {"opened_at_ms": "began_ms", "open_s": "blocked_s"}
    )
    # `least` ignores NULL: an unknown duration would count as down entirely.
    down = F.least(F.coalesce(F.col("lower_ms"), F.lit(0)) / 1000, "blocked_s")
    has_end = F.col("upper_ms").isNotNull()
    rest = F.col("blocked_s") - F.col("down_s")
    return known.withColumn("down_s", down).select(
        "group",
        "members",
        "began_ms",
        "last_at_ms",
        "lower_ms",
        "upper_ms",
        "attempts",
        "blocked_s",
        "down_s",
        "still_open",
        "missing",
        F.when(has_end, rest).otherwise(0.0).alias("unsure_s"),
        F.when(~has_end, rest).otherwise(0.0).alias("other_s"),
        simple_name(F.col("error_type")).alias("error"),
        *((F.col(name) > 0).alias(name) for name in _ENDINGS),
    )


def by_group(outages: DataFrame) -> DataFrame:
    """One row for each group; the longest blocked first."""
    is_saved = ~F.col("given_up") & ~F.col("left_line")
    return (
        outages.groupBy("group")
        .agg(
            F.count("*").alias("outages"),
            F.max("members").alias("members"),
            count_if("recovered", F.col("recovered") & is_saved),
            *(count_if(name, F.col(name)) for name in ("given_up", "left_line")),
            count_if("known_end", F.col("upper_ms").isNotNull()),
            count_if("unknown_length", F.col("lower_ms").isNull()),
            count_if("still_open", F.col("still_open") > 0),
            count_if("with_missing_entries", F.col("missing") > 0),
            *first_and_last("began_ms", "last_at_ms"),
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
        *(count_if(name, F.col(name)) for name in _ENDINGS),
        *first_and_last("began_ms", "last_at_ms"),
    )


def bucket(at_ms: Column, bucket_ms: int) -> Column:
    """The beginning of the bucket of time that `at_ms` is in."""
    return (F.floor(at_ms / bucket_ms) * bucket_ms).cast("bigint")


def simple_name(error_type: Column) -> Column:
    """A type's name without its module, which the journal often lacks."""
    return F.substring_index(error_type, ".", -1)


def first_and_last(first: str, last: str) -> list[Column]:
    """The earliest and the latest time of these two columns."""
    return [F.min(first).alias("first_ms"), F.max(last).alias("last_ms")]
