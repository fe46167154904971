"""How do the episodes that the journal tells get into the lake?"""

from __future__ import annotations

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.spark.lake.lake import JOURNAL, Lake
from linear_retry.spark.outages.episodes import KINDS, episodes
from linear_retry.spark.tables.records import date_of

OUTAGES = "outages"


def outages(lake: Lake) -> dict[str, int]:
    """Make the table `outages` anew of all that is in `journal`; how many there are of each kind.

    Until it is written the old one stays. Killed in the instant between the two, there is none:
    call it again. Raises `LakeError` where no journal was ingested, or the lake cannot be written.
    """
    lake.classic()
    found, counted = episodes(lake.table(JOURNAL)), Observation()
    day = date_of("timestamp_millis(coalesce(opened_at_ms, last_at_ms))")
    dated = found.withColumn("date", F.expr(day)).observe(
        counted, *(F.count(F.when(F.col("kind") == kind, 1)).alias(kind) for kind in KINDS)
    )
    # A shuffle, and no `coalesce`: that would have the few tasks that write find the episodes too,
    # and keep the memory of all of these until their end.
    unfinished = f"{lake.path}/_unfinished/{OUTAGES}"
    lake.write(dated.hint("rebalance", "date"), unfinished)
    lake.publish(unfinished, f"{lake.path}/{OUTAGES}")
    return dict(counted.get)
