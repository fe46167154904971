"""A scheduler that runs on the test's Spark, and what it needs."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from linear_retry.kafka.consumer.messages import read
from linear_retry.records.record import Record
from linear_retry.spark.scheduler.checkpoint import Checkpoint
from linear_retry.spark.scheduler.query import SchedulerOnSpark, start
from tests.conftest import TopicFactory
from tests.kafka_operations import Headers, wait_until
from tests.real_kafka import RealKafka

_LIMIT_S = 240.0


def request(destination: str, at_ms: int, retry_id: str, partition: int | None = None) -> Headers:
    """The headers of a record that is to be sent at that time."""
    headers = [
        ("retry-destination", destination.encode()),
        ("retry-at-ms", b"%d" % at_ms),
        ("retry-id", retry_id.encode()),
    ]
    more = [] if partition is None else [("retry-original-partition", b"%d" % partition)]
    return [*headers, *more]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def scheduler(
    kafka: RealKafka, topic: TopicFactory, directory: Path, **more: Any
) -> SchedulerOnSpark:
    """One that may send anywhere, with new topics of its own."""
    config = {"bootstrap.servers": kafka.bootstrap}
    values = {"topic": topic(2), "dead_letters": topic(), "checkpoint": f"{directory}/state"}
    return SchedulerOnSpark(config=config, **{**values, "allow": ("*",), **more})


@contextmanager
def running(spark: SparkSession, one: SchedulerOnSpark) -> Iterator[None]:
    """Runs its query meanwhile; raises what has ended it."""
    query = start(spark, one)
    try:
        yield
        checkpoint = Checkpoint(spark, one.checkpoint)
        # Between two micro-batches, as well as it goes: what is under way is sent again.
        wait_until(
            lambda: query.exception() or checkpoint.last_batch() == checkpoint.last_planned(),
            "a micro-batch ends",
        )
        if query.exception() is not None:
            raise AssertionError(query.exception())
    finally:
        query.stop()


def arrived(kafka: RealKafka, topic: str, count: int) -> list[Record]:
    """The records in the topic, the first with each id, once there are so many."""

    def enough() -> Sequence[Record] | None:
        found = dict[bytes | None, Record]()
        for each in map(read, kafka.read(topic)):
            found.setdefault(dict(each.headers)["retry-id"], each)
        return list(found.values()) if len(found) >= count else None

    return list(wait_until(enough, f"{count} in {topic}", _LIMIT_S))
