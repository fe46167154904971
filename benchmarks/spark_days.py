"""Measures the outages of a day more on a year of a fleet's journal."""

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from benchmarks.child import in_child
from benchmarks.figures import Figure, Result
from benchmarks.on_spark import ROUNDS_AT_MOST, own_spark
from benchmarks.scale import Scale
from benchmarks.spark_episodes import records, timed
from examples.fleet.model import FLEET, Service
from linear_retry.spark import JOURNAL, Lake, journal, update_episodes
from tests.real_kafka import RealKafka

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Days:
    """The entries, and the seconds that `spark episodes` takes for them."""

    entries: int
    year_s: float
    day_entries: int
    day_s: float


def run(_: RealKafka, scale: Scale) -> Result:
    """A year of weeks, each of new instances; then its last day, which was held back."""
    fleet = FLEET[: max(1, len(FLEET) * scale.episode_events // 1_000_000)]
    with tempfile.TemporaryDirectory() as directory:
        rounds = range(min(scale.rounds, ROUNDS_AT_MOST))
        found = [in_child(measured, f"{directory}/{each}", fleet, 52) for each in rounds]
    first = found[0]
    return Result(
        (
            Figure(f"{first.entries:,} entries of a year", "s", tuple(e.year_s for e in found)),
            Figure(f"{first.day_entries:,} of a day more", "s", tuple(e.day_s for e in found)),
        ),
        notes=("without the start of Spark; the day is measured after the year, which is warm",),
    )


def measured(path: str, fleet: Sequence[Service], weeks: int) -> Days:
    """What `linear-retry spark episodes` costs at first, and a day later."""
    with own_spark() as spark:
        lake, year = Lake(spark, path), _year(spark, fleet, weeks).persist()
        (last_ms,) = year.agg(F.max("at_ms")).collect()[0]
        is_last = F.col("at_ms") > last_ms - _DAY_MS
        parts = year.where(~is_last), year.where(is_last)
        counts, times_s = [part.count() for part in parts], []
        lake.create(JOURNAL, year.schema)
        for part in parts:
            part.sort("at_ms").write.format("delta").mode("append").save(lake.place(JOURNAL))
            times_s.append(timed(spark, lambda: update_episodes(lake))[0])
    shutil.rmtree(Path(path))
    return Days(counts[0], times_s[0], counts[1], times_s[1])


def _year(spark: SparkSession, fleet: Sequence[Service], weeks: int) -> DataFrame:
    """The same week again and again, each time by new instances of the same members."""
    week = journal(records(spark, fleet)).where("problems IS NULL")
    many = week.crossJoin(spark.range(weeks).withColumnRenamed("id", "week"))
    later_ms = F.col("week") * 7 * _DAY_MS
    at_ms = F.col("at_ms") + later_ms
    return many.withColumns(
        {
            "instance": F.concat_ws("-", "instance", "partition", F.col("week").cast("string")),
            "group": F.concat_ws("-", "group", "partition"),
            "at_ms": at_ms,
            "retry_at_ms": F.col("retry_at_ms") + later_ms,
            "timestamp": F.timestamp_millis(at_ms),
            "date": F.to_date(F.timestamp_millis(at_ms)),
        }
    ).drop("week")
