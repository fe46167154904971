"""Measures `spark ingest` against a job that only copies the topic."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from benchmarks.child import in_child
from benchmarks.figures import Figure, Result, Target
from benchmarks.letters import topic_of_letters
from benchmarks.on_spark import ROUNDS_AT_MOST, jvm_cpu_s, jvm_mib, own_spark, parquet_bytes
from benchmarks.scale import Scale
from linear_retry.spark import DEAD_LETTERS, ingest
from linear_retry.spark.ingestion.ingest import MAX_OFFSETS
from tests.real_kafka import RealKafka


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one run."""

    elapsed_s: float
    cpu_s: float
    jvm_mib: float
    parquet_bytes: int

    @classmethod
    def of(cls, spark: SparkSession, read: Callable[[], str]) -> Cost:
        """Of `read`, which returns where its Parquet files are."""
        cpu_s, begun_s = jvm_cpu_s(spark), time.perf_counter()
        table = read()
        elapsed_s = time.perf_counter() - begun_s
        return cls(elapsed_s, jvm_cpu_s(spark) - cpu_s, jvm_mib(spark), parquet_bytes(table))


Way = Callable[[SparkSession, str, str, str], str]
"""Reads a topic at these brokers into a directory; where in that the Parquet files are."""


def run(kafka: RealKafka, scale: Scale) -> Result:
    """In turn, each in a process of its own that has read a tenth of it before."""
    letters = scale.ingested_letters
    topic, tenth = topic_of_letters(kafka, letters), topic_of_letters(kafka, letters // 10)
    rounds = [
        tuple(in_child(measured, way, kafka.bootstrap, tenth, topic) for way in (copied, ingested))
        for _ in range(min(scale.rounds, ROUNDS_AT_MOST))
    ]
    bare, ours = zip(*rounds, strict=True)
    pairs = list(zip(bare, ours, strict=True))
    ratios = tuple(copy.elapsed_s / our.elapsed_s for copy, our in pairs)
    of_cpu = tuple(copy.cpu_s / our.cpu_s for copy, our in pairs)
    return Result(
        (
            *_figures("bare copy", letters, bare),
            *_figures("spark ingest", letters, ours),
            Figure("spark ingest / bare copy", "times", ratios, Target("at least", 0.6)),
            Figure("the same, of CPU time", "times", of_cpu),
        ),
        notes=("without the start of Spark; each has ingested a tenth of it before",),
    )


def _figures(name: str, letters: int, rounds: tuple[Cost, ...]) -> tuple[Figure, ...]:
    def each(what: str, unit: str, value: Callable[[Cost], float]) -> Figure:
        return Figure(f"{name}{what}", unit, tuple(map(value, rounds)))

    return (
        each("", "letters/s", lambda cost: letters / cost.elapsed_s),
        each(", CPU of the JVM", "µs/letter", lambda cost: cost.cpu_s / letters * 1e6),
        each(", the JVM at the most", "MiB", lambda cost: cost.jvm_mib),
        each(", Parquet", "bytes/letter", lambda cost: cost.parquet_bytes / letters),
    )


def measured(way: Way, bootstrap: str, tenth: str, topic: str) -> Cost:
    """The second of two."""
    with own_spark() as spark, tempfile.TemporaryDirectory() as directory:
        way(spark, bootstrap, tenth, f"{directory}/warm")
        return Cost.of(spark, lambda: way(spark, bootstrap, topic, f"{directory}/lake"))


def ingested(spark: SparkSession, bootstrap: str, topic: str, directory: str) -> str:
    """As `linear-retry spark ingest` does."""
    ingest(spark, {"bootstrap.servers": bootstrap}, directory, dead_letters=[topic])
    return f"{directory}/{DEAD_LETTERS}"


def copied(spark: SparkSession, bootstrap: str, topic: str, directory: str) -> str:
    """What Kafka's source gives, to a Delta table, in batches as large; else as Spark's guide."""
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", MAX_OFFSETS)
        .load()
    )
    writer = records.writeStream.format("delta").option("checkpointLocation", f"{directory}/at")
    writer.trigger(availableNow=True).start(f"{directory}/copy").awaitTermination()
    return f"{directory}/copy"
