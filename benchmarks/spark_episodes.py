"""What do episodes cost, of one and of ten times as many events, and of events of one member?"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from benchmarks.child import apart
from benchmarks.figures import Figure, Result
from benchmarks.on_spark import (
    ROUNDS_AT_MOST,
    jvm_cpu_s,
    jvm_mib,
    own_spark,
    parquet_bytes,
    shuffled_bytes,
)
from benchmarks.scale import Scale
from linear_retry.demo.fleet import FLEET, Calendar, Week
from linear_retry.demo.fleet_lives import said
from linear_retry.spark import JOURNAL, OUTAGES, Lake, outages
from linear_retry.spark.entries import entries
from tests.real_kafka import RealKafka

_WEEK = Week(1_795_000_000_000, 86_400_000)
_WEEKS = 2
_RECORDS = "topic string, partition int, offset bigint, timestamp timestamp, value binary"


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one run, and bytes of each event."""

    took_s: float
    cpu_s: float
    jvm_mib: float
    shuffled: float
    journal: float
    found: float


def run(_: RealKafka, scale: Scale) -> Result:
    """From a table `journal` in Parquet, each in a process that has done a small one before."""
    few, many = scale.episode_events, 10 * scale.episode_events
    with tempfile.TemporaryDirectory() as directory:
        small, whole, tenfold, lone = (f"{directory}/{n}" for n in range(4))
        wanted = [(small, few // 10, False), (whole, few, False), (tenfold, many, False)]
        apart(make, [*wanted, (lone, few, True)])
        return Result(
            (
                *_figures(few, "", small, whole, scale),
                *_figures(many, "", small, tenfold, scale),
                *_figures(few, " of one member", small, lone, scale),
            ),
            notes=("without the start of Spark; each has done a tenth of the smaller before",),
        )


def _figures(events: int, what: str, small: str, lake: str, scale: Scale) -> Iterator[Figure]:
    rounds = [
        (apart(counted, small, lake), apart(found, small, lake, events))
        for _ in range(min(scale.rounds, ROUNDS_AT_MOST))
    ]
    name = f"{events:,} events{what}"
    bare, costs = zip(*rounds, strict=True)
    yield Figure(f"{name}: bare count", "s", tuple(took_s for took_s, _ in bare))
    yield Figure(f"{name}: CPU of that", "s", tuple(cpu_s for _, cpu_s in bare))
    yield Figure(f"{name}: outages", "s", tuple(cost.took_s for cost in costs))
    yield Figure(f"{name}: CPU of the JVM", "s", tuple(cost.cpu_s for cost in costs))
    yield Figure(f"{name}: the JVM at the most", "MiB", tuple(cost.jvm_mib for cost in costs))
    yield Figure(f"{name}: journal", "bytes/event", tuple(cost.journal for cost in costs))
    yield Figure(f"{name}: shuffled", "bytes/event", tuple(cost.shuffled for cost in costs))
    yield Figure(f"{name}: outages", "bytes/event", tuple(cost.found for cost in costs))


def make(lakes: list[tuple[str, int, bool]]) -> None:
    """Fill the table `journal` of each with so many events, of one member or of a fleet's."""
    with own_spark() as spark:
        for lake, events, is_of_one in lakes:
            fill(spark, lake, events, is_of_one=is_of_one)


def fill(
    spark: SparkSession, lake: str, events: int, *, is_of_one: bool = False, weeks: int = _WEEKS
) -> None:
    """The entries of a few weeks of the model's fleet, and as many copies of them as it takes."""
    known = entries(_records(spark, weeks)).cache()
    copies = -(-events // known.count())
    copy = F.col("copy").cast("string")
    many = known.crossJoin(spark.range(copies).withColumnRenamed("id", "copy")).limit(events)
    names = {
        "instance": F.concat_ws("-", "instance", copy),
        "group": F.lit("one") if is_of_one else F.concat_ws("-", "group", "partition", copy),
    }
    if is_of_one:
        names["member"] = F.lit("one")
    renamed = many.withColumns(names).drop("copy")
    Lake(spark, lake).write(renamed, f"{lake}/{JOURNAL}/batch=all")
    known.unpersist()


def _records(spark: SparkSession, weeks: int) -> DataFrame:
    """Of each seed a week of all that is not real; the seed in place of the partition."""
    rows = [
        (record.topic, seed, number, None, record.value)
        for seed in range(weeks)
        for service in FLEET
        for number, record in enumerate(
            said(service, Calendar.of(service, _WEEK, seed), _WEEK, seed, "dlq").journal("journal")
        )
    ]
    return spark.createDataFrame(rows, _RECORDS)


def counted(small: str, lake: str) -> tuple[float, float]:
    """Seconds to count the events of each kind, and of CPU."""
    with own_spark() as spark:
        _count(Lake(spark, small))
        cpu_s, begun_s = jvm_cpu_s(spark), time.perf_counter()
        _count(Lake(spark, lake))
        return time.perf_counter() - begun_s, jvm_cpu_s(spark) - cpu_s


def _count(lake: Lake) -> None:
    lake.table(JOURNAL).groupBy("group", "event").count().write.format("noop").mode(
        "overwrite"
    ).save()


def found(small: str, lake: str, events: int) -> Cost:
    """What `linear-retry spark outages` costs."""
    with own_spark() as spark:
        outages(Lake(spark, small))
        before, cpu_s, begun_s = shuffled_bytes(spark), jvm_cpu_s(spark), time.perf_counter()
        outages(Lake(spark, lake))
        took_s = time.perf_counter() - begun_s
        return Cost(
            took_s,
            jvm_cpu_s(spark) - cpu_s,
            jvm_mib(spark),
            (shuffled_bytes(spark) - before) / events,
            parquet_bytes(f"{lake}/{JOURNAL}") / events,
            parquet_bytes(f"{lake}/{OUTAGES}") / events,
        )
