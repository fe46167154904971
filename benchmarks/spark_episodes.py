"""Measures the episodes of outages over growing numbers of events."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from benchmarks.child import in_child
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
from examples.fleet.model import FLEET, Calendar, Service, Week
from examples.fleet.simulated_members import simulate
from linear_retry.spark import EPISODES, JOURNAL, Lake, journal, update_episodes
from tests.real_kafka import RealKafka

_WEEK = Week(1_795_000_000_000, 86_400_000)
_WEEKS = 2
_RECORDS = "topic string, partition int, offset bigint, timestamp timestamp, value binary"


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a bare count, and of `spark episodes`; bytes are of each event."""

    count_s: float
    count_cpu_s: float
    elapsed_s: float
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
        in_child(make, [*wanted, (lone, few, True)])
        return Result(
            (
                *_figures(few, "", small, whole, scale),
                *_figures(many, "", small, tenfold, scale),
                *_figures(few, " of one member", small, lone, scale),
            ),
            notes=("without the start of Spark; each has done a tenth of the smaller before",),
        )


def _figures(events: int, what: str, small: str, lake: str, scale: Scale) -> Iterator[Figure]:
    rounds = min(scale.rounds, ROUNDS_AT_MOST)
    costs = [in_child(measured, small, lake, events) for _ in range(rounds)]

    def each(name: str, unit: str, value: Callable[[Cost], float]) -> Figure:
        return Figure(f"{events:,} events{what}: {name}", unit, tuple(map(value, costs)))

    yield each("bare count", "s", lambda cost: cost.count_s)
    yield each("CPU of that", "s", lambda cost: cost.count_cpu_s)
    yield each("outages", "s", lambda cost: cost.elapsed_s)
    yield each("CPU of that", "s", lambda cost: cost.cpu_s)
    yield each("JVM at the most", "MiB", lambda cost: cost.jvm_mib)
    yield each("journal", "bytes/event", lambda cost: cost.journal)
    yield each("shuffled", "bytes/event", lambda cost: cost.shuffled)
    yield each("outages", "bytes/event", lambda cost: cost.found)


def make(lakes: list[tuple[str, int, bool]]) -> None:
    """Fill the table `journal` of each with so many events, of one member or of a fleet's."""
    with own_spark() as spark:
        for lake, events, is_of_one in lakes:
            fill(spark, lake, events, is_of_one=is_of_one)


def fill(
    spark: SparkSession,
    lake: str,
    events: int,
    *,
    is_of_one: bool = False,
    fleet: Sequence[Service] = FLEET,
) -> None:
    """The entries of a few weeks of the model's fleet, and as many copies of them as it takes."""
    known = journal(records(spark, fleet)).cache()
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
    Lake(spark, lake).replace(renamed, JOURNAL)
    known.unpersist()


def records(spark: SparkSession, fleet: Sequence[Service]) -> DataFrame:
    """Of each seed a week of all that is not real; the seed in place of the partition."""
    rows = [
        (record.topic, seed, number, None, record.value)
        for seed in range(_WEEKS)
        for service in fleet
        for number, record in enumerate(
            simulate(service, Calendar.of(service, _WEEK, seed), _WEEK, seed, "dlq").journal(
                "journal"
            )
        )
    ]
    return spark.createDataFrame(rows, _RECORDS)


def measured(small: str, lake: str, events: int) -> Cost:
    """What a count, and then `linear-retry spark episodes`, costs."""
    for each in (small, lake):  # else it would only look for what is new
        shutil.rmtree(f"{each}/{EPISODES}", ignore_errors=True)
    with own_spark() as spark:
        _count(Lake(spark, small))
        update_episodes(Lake(spark, small))
        count_s, count_cpu_s = timed(spark, lambda: _count(Lake(spark, lake)))
        before = shuffled_bytes(spark)
        elapsed_s, cpu_s = timed(spark, lambda: update_episodes(Lake(spark, lake)))
        return Cost(
            count_s,
            count_cpu_s,
            elapsed_s,
            cpu_s,
            jvm_mib(spark),
            (shuffled_bytes(spark) - before) / events,
            parquet_bytes(f"{lake}/{JOURNAL}") / events,
            parquet_bytes(f"{lake}/{EPISODES}") / events,
        )


def timed(spark: SparkSession, work: Callable[[], object]) -> tuple[float, float]:
    """The seconds that it takes, and those of the JVM's CPU."""
    cpu_s, begun_s = jvm_cpu_s(spark), time.perf_counter()
    work()
    return time.perf_counter() - begun_s, jvm_cpu_s(spark) - cpu_s


def _count(lake: Lake) -> None:
    """How many events of each kind and group."""
    counts = lake.table(JOURNAL).groupBy("group", "event").count()
    counts.write.format("noop").mode("overwrite").save()
