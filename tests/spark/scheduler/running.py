"""A scheduler that runs on the test's Spark, and what it needs."""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from linear_retry.kafka.consumer.messages import read
from linear_retry.records.record import Record
from linear_retry.spark.scheduler.checkpoint import Checkpoint
from linear_retry.spark.scheduler.query import SchedulerOnSpark, start
from linear_retry.spark.scheduler.service import run
from tests.conftest import TopicFactory
from tests.kafka_operations import Headers, wait_until
from tests.real_kafka import RealKafka

LIMIT_S = 400.0


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
def served(spark: SparkSession, one: SchedulerOnSpark) -> Iterator[Future[None]]:
    """Runs the service meanwhile, and stops its query at the end.

    On a busy machine queries fail too: Spark waits 10 s for a new Python worker, and no longer.
    """
    begun = list[StreamingQuery]()

    def begin(*given: Any) -> StreamingQuery:
        begun.append(start(*given))
        return begun[-1]

    with ThreadPoolExecutor(1) as pool:
        service = pool.submit(run, spark, one, begin)
        try:
            yield service
        finally:
            while not service.done():
                for query in begun:
                    query.stop()
                wait([service], 1)


@contextmanager
def running(spark: SparkSession, one: SchedulerOnSpark) -> Iterator[None]:
    """Runs the service meanwhile; raises what has ended it."""
    with served(spark, one) as service:
        yield
        checkpoint = Checkpoint(spark, one.checkpoint)
        # Between two micro-batches, as well as it goes: what is under way is sent again.
        wait_until(
            lambda: service.done() or checkpoint.last_batch() == checkpoint.last_planned(),
            "a micro-batch ends",
        )
        assert not service.done(), service.exception()


def arrived(kafka: RealKafka, topic: str, count: int) -> list[Record]:
    """The records in the topic, the first with each id, once there are so many."""

    def found() -> list[Record]:
        by_id = dict[bytes | None, Record]()
        for each in map(read, kafka.read(topic)):
            by_id.setdefault(dict(each.headers)["retry-id"], each)
        return list(by_id.values())

    wait_until(lambda: len(found()) >= count, f"{count} in {topic}", found)
    return found()
