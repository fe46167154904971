"""Measures how late, and how fast, the scheduler on Spark sends."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import Message
from pyspark.sql import SparkSession

from benchmarks.child import in_child
from benchmarks.figures import Figure, Result, Target, percentile
from benchmarks.on_spark import ROUNDS_AT_MOST, jvm_cpu_s, jvm_mib, own_spark
from benchmarks.scale import Scale
from benchmarks.topics import PARTITIONS, VALUE_BYTES
from linear_retry.spark.scheduler.query import SchedulerOnSpark, start
from tests.kafka_operations import KafkaOperations, wait_until
from tests.real_kafka import RealKafka

_PER_S = 1_000
_AHEAD_S = 20
_FLOOD = 4
"""So many times the messages of the other benchmarks of senders: 200,000."""
_FLOOD_PER_S = 20_000
"""At a lower rate than that, of fewer messages, it would send them as they become due."""
_IDLE_S = 10.0
_LIMIT_S = 600.0
_WARM = 2_000


@dataclass(frozen=True, slots=True)
class Found:
    """Of one round; `cpu_s` is the JVM's for each second in which nothing is due."""

    p50_ms: float
    p99_ms: float
    rate: float
    cpu_s: float
    jvm_mib: float


def run(kafka: RealKafka, scale: Scale) -> Result:
    """Each round in a process of its own, which has sent some messages before."""
    flood = _FLOOD * scale.sent_messages
    rounds = [
        in_child(measured, kafka.bootstrap, scale.lateness_s, flood)
        for _ in range(min(scale.rounds, ROUNDS_AT_MOST))
    ]
    at = f"late at {_PER_S:,}/s"
    return Result(
        (
            Figure(f"{at}, p50", "ms", tuple(r.p50_ms for r in rounds), Target("at most", 1000)),
            Figure(f"{at}, p99", "ms", tuple(r.p99_ms for r in rounds), Target("at most", 2500)),
            Figure(
                f"{flood:,} due within {flood // _FLOOD_PER_S} s",
                "messages/s",
                tuple(r.rate for r in rounds),
                Target("at least", 5000),
            ),
            Figure("CPU of the JVM, nothing due", "s/s", tuple(r.cpu_s for r in rounds)),
            Figure("the JVM at the most", "MiB", tuple(r.jvm_mib for r in rounds)),
        ),
        notes=(f"values of {VALUE_BYTES} bytes with 14 headers, for {PARTITIONS} partitions",),
    )


def measured(bootstrap: str, steady_s: float, flood: int) -> Found:
    """One round of all of it."""
    kafka = KafkaOperations(bootstrap)
    with own_spark() as spark, tempfile.TemporaryDirectory() as directory:
        with _running(kafka, spark, directory) as intake:
            _sent(kafka, intake, _WARM, 1.0)
            late_ms, _ = _sent(kafka, intake, round(_PER_S * steady_s), steady_s)
            cpu_s = jvm_cpu_s(spark)
            time.sleep(_IDLE_S)
            cpu_s = jvm_cpu_s(spark) - cpu_s
            _, took_s = _sent(kafka, intake, flood, flood / _FLOOD_PER_S)
        return Found(
            percentile(late_ms, 50),
            percentile(late_ms, 99),
            flood / took_s,
            cpu_s / _IDLE_S,
            jvm_mib(spark),
        )


@contextmanager
def _running(kafka: KafkaOperations, spark: SparkSession, directory: str) -> Iterator[str]:
    intake = f"scheduled-{time.time_ns()}"
    kafka.create_topic(intake, PARTITIONS)
    kafka.create_topic(f"{intake}.dlq")
    config = {"bootstrap.servers": kafka.bootstrap}
    query = start(
        spark,
        SchedulerOnSpark(config=config, topic=intake, checkpoint=directory, allow=("due-*",)),
    )
    try:
        yield intake
    finally:
        query.stop()


def _sent(
    kafka: KafkaOperations, intake: str, count: int, within_s: float
) -> tuple[list[float], float]:
    """How late each was in the broker, and the time from the first due one to the last there.

    All are written some time before the first is due, and more where they are many.
    """
    topic = f"due-{time.time_ns()}"
    kafka.create_topic(topic, PARTITIONS, {"message.timestamp.type": "LogAppendTime"})
    begin_ms = time.time() * 1000 + 1000 * (_AHEAD_S + count // 5000)
    kafka.produce(
        intake,
        (
            (
                n % PARTITIONS,
                b"key",
                b"x" * VALUE_BYTES,
                _headers(topic, n, begin_ms, count, within_s),
            )
            for n in range(count)
        ),
    )
    written = wait_until(
        lambda: _all_of(kafka, topic, count), f"{count} in {topic}", within_s=_LIMIT_S
    )
    late_ms = [float(each.timestamp()[1] - _due_ms(each)) for each in written]
    last_ms = max(each.timestamp()[1] for each in written)
    assert min(late_ms) >= 0, "one was early"
    return late_ms, (last_ms - begin_ms) / 1000


def _all_of(kafka: KafkaOperations, topic: str, count: int) -> list[Message] | None:
    time.sleep(1.0)  # to look costs what is measured
    if sum(kafka.end_offsets(topic).values()) < count:
        return None
    return kafka.read(topic)


def _headers(
    topic: str, number: int, begin_ms: float, count: int, within_s: float
) -> list[tuple[str, bytes | None]]:
    at_ms = begin_ms + number * within_s * 1000 / count
    more: list[tuple[str, bytes | None]] = [(f"header-{n}", b"some value") for n in range(10)]
    return [
        ("retry-destination", topic.encode()),
        ("retry-at-ms", b"%d" % at_ms),
        ("retry-original-partition", b"%d" % (number % PARTITIONS)),
        ("retry-id", b"id-%d" % number),
        *more,
    ]


def _due_ms(message: Message) -> int:
    return int(dict(message.headers() or ())["retry-at-ms"] or b"")
