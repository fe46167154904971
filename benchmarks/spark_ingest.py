"""How fast does `spark ingest` read dead letters, beside a job that only copies the topic?"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable

from pyspark.sql import SparkSession

from benchmarks.child import apart
from benchmarks.figures import Figure, Result, Target
from benchmarks.letters import topic_of_letters
from benchmarks.on_spark import ROUNDS_AT_MOST, jvm_mib, own_spark, parquet_bytes
from benchmarks.scale import Scale
from linear_retry.spark import DEAD_LETTERS, ingest
from linear_retry.spark.ingest import MAX_OFFSETS
from tests.real_kafka import RealKafka

Measured = tuple[float, float, float]
"""Seconds, MiB of the JVM at the most, and bytes of Parquet."""
Way = Callable[[SparkSession, str, str, str], str]
"""Reads a topic at these brokers into a directory; where in that the Parquet files are."""


def run(kafka: RealKafka, scale: Scale) -> Result:
    """In turn, each in a process of its own that has read a tenth of it before."""
    letters = scale.ingested_letters
    topic, tenth = topic_of_letters(kafka, letters), topic_of_letters(kafka, letters // 10)
    rounds = [
        tuple(apart(measured, way, kafka.bootstrap, tenth, topic) for way in (copied, ingested))
        for _ in range(min(scale.rounds, ROUNDS_AT_MOST))
    ]
    bare, ours = zip(*rounds, strict=True)
    ratios = tuple(b[0] / o[0] for b, o in zip(bare, ours, strict=True))
    return Result(
        (
            *_figures("bare copy", letters, bare),
            *_figures("spark ingest", letters, ours),
            Figure("spark ingest / bare copy", "times", ratios, Target("at least", 0.6)),
        ),
        notes=("without the start of Spark; each has ingested a tenth of it before",),
    )


def _figures(name: str, letters: int, rounds: tuple[Measured, ...]) -> tuple[Figure, ...]:
    return (
        Figure(name, "letters/s", tuple(letters / took_s for took_s, _, _ in rounds)),
        Figure(f"{name}, the JVM at the most", "MiB", tuple(size for _, size, _ in rounds)),
        Figure(f"{name}, Parquet", "bytes/letter", tuple(size / letters for *_, size in rounds)),
    )


def measured(way: Way, bootstrap: str, tenth: str, topic: str) -> Measured:
    """The second of two."""
    with own_spark() as spark, tempfile.TemporaryDirectory() as directory:
        way(spark, bootstrap, tenth, f"{directory}/warm")
        begun_s = time.perf_counter()
        table = way(spark, bootstrap, topic, f"{directory}/lake")
        took_s = time.perf_counter() - begun_s
        return took_s, jvm_mib(spark), parquet_bytes(table)


def ingested(spark: SparkSession, bootstrap: str, topic: str, directory: str) -> str:
    """As `linear-retry spark ingest` does."""
    ingest(spark, {"bootstrap.servers": bootstrap}, directory, dead_letters=[topic])
    return f"{directory}/{DEAD_LETTERS}"


def copied(spark: SparkSession, bootstrap: str, topic: str, directory: str) -> str:
    """What Kafka's source gives, to Parquet files, in batches as large."""
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", MAX_OFFSETS)
        .load()
    )
    writer = records.writeStream.format("parquet").option("checkpointLocation", f"{directory}/at")
    writer.trigger(availableNow=True).start(f"{directory}/copy").awaitTermination()
    return f"{directory}/copy"
