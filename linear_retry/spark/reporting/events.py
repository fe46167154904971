"""What else did the consumers tell that somebody should know?"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

NOTABLE = (
    *("DataLost", "HandlerTooSlow", "Skipped", "LimitReached"),
    *("DeadLetterFailed", "CommitFailed", "ClientReplaced", "RetentionTooShort"),
)


def by_event(journal: DataFrame) -> DataFrame:
    """By group, how often each of these was told; an entry that is there twice counts once."""
    return (
        journal.where(F.col("problems").isNull() & F.col("event").isin(*NOTABLE))
        .groupBy("group", "event")
        .agg(
            F.count_distinct("event_id").alias("times"),
            F.min("at_ms").alias("first_ms"),
            F.max("at_ms").alias("last_ms"),
        )
        .orderBy(F.desc("times"), "group", "event")
    )
