"""Counts dead letters by group, reason, exception, key and time."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.records.retry_headers import RETRY
from linear_retry.spark.history.outages import count_if
from linear_retry.spark.reporting.outages import bucket, first_and_last, simple_name
from linear_retry.spark.tables.sql import LAST_MS

_SHOWN = 200
_REASONS = {
    "exhausted": "letters_exhausted",
    "permanent": "letters_permanent",
    "given-up": "letters_given_up",
}


def distinct(letters: DataFrame) -> DataFrame:
    """Deduplicates letters, and selects the columns that the summaries need.

    A topic may contain a letter twice: the same group, id and generation mean the same letter.
    """
    first_ms, last_ms = (_possible(F.col(f"{each}_failure_ms")) for each in ("first", "last"))
    dead = letters.where(~F.coalesce(F.col("send_to") == RETRY, F.lit(False)))
    return dead.dropDuplicates(["group_id", "id", "generation"]).select(
        F.col("group_id").alias("group"),
        "reason",
        "exception_type",
        "exception_message",
        "key",
        "failures",
        F.coalesce(last_ms, _possible(F.unix_millis("timestamp"))).alias("died_ms"),
        F.when(last_ms >= first_ms, last_ms - first_ms).alias("waited_ms"),
        F.col("problems").isNotNull().alias("unreadable"),
    )


def by_reason(letters: DataFrame, *, texts: bool) -> DataFrame:
    """By group, reason and exception, most letters first; with the latest text if `texts`."""
    text = F.max_by("exception_message", "died_ms") if texts else F.lit(None).cast("string")
    return (
        letters.groupBy("group", "reason", "exception_type")
        .agg(
            F.count("*").alias("letters"),
            count_if("unreadable", F.col("unreadable")),
            *first_and_last("died_ms", "died_ms"),
            F.avg("failures").alias("mean_failures"),
            (F.avg("waited_ms") / 1000).alias("mean_waited_s"),
            F.substring(text, 1, _SHOWN).alias("latest_text"),
        )
        .orderBy(F.desc("letters"), "group", "reason", "exception_type")
    )


def over_time(letters: DataFrame, bucket_ms: int) -> DataFrame:
    """The letters of each bucket of time, by reason; those without a time are left out."""
    return (
        letters.where("died_ms IS NOT NULL")
        .groupBy("reason", bucket(F.col("died_ms"), bucket_ms).alias("from_ms"))
        .agg(F.count("*").alias("letters"))
        .withColumn("until_ms", F.col("from_ms") + bucket_ms)
        .orderBy(F.desc("letters"), "from_ms", "reason")
    )


def by_key(letters: DataFrame) -> DataFrame:
    """By group and key, most letters first; `form` says whether `key` is text or bytes."""
    return (
        letters.groupBy("group", "key")
        .agg(
            F.count("*").alias("letters"),
            F.count_distinct("exception_type").alias("exception_types"),
            *first_and_last("died_ms", "died_ms"),
        )
        .orderBy(F.desc("letters"), "group", "key")
        .withColumns(_shown(F.col("key")))
    )


def by_error(letters: DataFrame) -> DataFrame:
    """By group and error: the letters of each reason."""
    return letters.groupBy("group", simple_name(F.col("exception_type")).alias("error")).agg(
        *(count_if(name, F.col("reason") == reason) for reason, name in _REASONS.items()),
        *first_and_last("died_ms", "died_ms"),
    )


def _shown(key: Column) -> dict[str, Column]:
    """The beginning of a key as text, or in hexadecimal digits if it is not UTF-8."""
    text = F.try_validate_utf8(key.cast("string"))
    digits = F.concat(F.lit("0x"), F.lower(F.hex(F.substring(key, 1, _SHOWN // 2))))
    form = F.when(key.isNull(), "none").when(text.isNull(), "bytes").otherwise("text")
    return {
        "form": form,
        "size_bytes": F.octet_length(key),
        "key": F.coalesce(F.substring(text, 1, _SHOWN), digits),
    }


def _possible(at_ms: Column) -> Column:
    return F.when(at_ms.between(0, LAST_MS), at_ms)
