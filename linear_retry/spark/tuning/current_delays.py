"""Finds the delays that each group uses now, in its journal."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.strategy.delays import MAX_DELAY_S, MAX_DELAYS

_LATEST = 100
_DELAY = ("CircuitOpened", "ProbeFailed")


def recorded_delays(journal: DataFrame, outages: DataFrame) -> dict[str, tuple[int, ...]]:
    """By group: the wait after failure 1, 2 and so on, in ms, as far as outages have ever come.

    Each is the median of the last 100 in the table `journal`: a changed strategy counts as soon as
    it has been seen often enough, and a wait has its usual jitter. Only outages with known bounds
    count: others may have been a wait for Kafka.
    """
    failed = F.transform("probes", lambda probe: probe["sequence"])
    entries = outages.where("lower_ms IS NOT NULL").select(
        "instance", F.explode(F.concat(F.array("sequence"), failed)).alias("sequence")
    )
    recorded = journal.where(
        F.col("event").isin(*_DELAY)
        & F.col("failures").between(1, MAX_DELAYS)
        & F.col("delay_s").between(0, MAX_DELAY_S)
    ).join(entries, ["instance", "sequence"], "left_semi")
    latest = Window.partitionBy("group", "failures").orderBy(F.desc("at_ms"), F.desc("delay_s"))
    found = (
        recorded.withColumn("age", F.row_number().over(latest))
        .where(F.col("age") <= _LATEST)
        .groupBy("group", "failures")
        .agg(F.median("delay_s").alias("delay_s"))
    )
    delays: dict[str, dict[int, int]] = {}
    for row in found.collect():
        delays.setdefault(row["group"], {})[row["failures"]] = round(row["delay_s"] * 1000)
    return {group: _without_gap(each) for group, each in delays.items()}


def _without_gap(delays: dict[int, int]) -> tuple[int, ...]:
    """The delays up to the first failure that was never recorded."""
    known: list[int] = []
    while (delay_ms := delays.get(len(known) + 1)) is not None:
        known.append(delay_ms)
    return tuple(known)
