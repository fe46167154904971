"""The scheduler amid an outage of its brokers, and beside another one on its checkpoint."""

import logging
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from linear_retry.cli.output.exit_codes import FENCED
from linear_retry.errors import FencedError
from linear_retry.spark.scheduler.query import SchedulerOnSpark
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.real_kafka import RealKafka
from tests.spark.beside import beside, said_by
from tests.spark.scheduler.running import (
    arrived,
    now_ms,
    request,
    running,
    scheduler,
    served,
)

pytestmark = [pytest.mark.broker, pytest.mark.long, pytest.mark.usefixtures("interpreted")]

_IMPATIENT = {"kafka.default.api.timeout.ms": 2000, "kafka.request.timeout.ms": 1000}


def _sent(kafka: RealKafka, one: SchedulerOnSpark, to: str, retry_id: str) -> None:
    kafka.produce(one.topic, [(0, b"key", b"value", request(to, now_ms(), retry_id))])


def test_the_brokers_go_away_and_come_back(
    spark: SparkSession, own_kafka: RealKafka, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The query fails, is started again until it can go on, and nothing is lost: neither what
    waited, nor what came afterwards."""
    caplog.set_level(logging.WARNING)
    for topic in ("scheduled", "scheduled.dlq", "orders"):
        own_kafka.create_topic(topic)
    config = {"bootstrap.servers": own_kafka.bootstrap, **_IMPATIENT}
    one = SchedulerOnSpark(
        config=config, topic="scheduled", checkpoint=f"{tmp_path}/state", allow=("*",), partitions=1
    )
    with served(spark, one) as service:
        due_ms = now_ms() + 10_000
        own_kafka.produce(one.topic, [(0, b"key", b"", request("orders", due_ms, "waits"))])
        _sent(own_kafka, one, "orders", "before")
        arrived(own_kafka, "orders", 1)
        own_kafka.kill()
        wait_until(lambda: caplog.records or service.done(), "it has failed")
        assert not service.done(), service.exception()
        own_kafka.start()
        _sent(own_kafka, one, "orders", "afterwards")
        found = arrived(own_kafka, "orders", 3)
    assert service.exception() is None
    by_id = {dict(each.headers)["retry-id"]: each for each in found}
    assert {b"before", b"waits", b"afterwards"} == by_id.keys()
    assert by_id[b"waits"].timestamp_ms >= due_ms


def test_two_on_one_checkpoint(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """In two processes: the one that was started first ends, and the other one goes on. It was
    either of them, and on S3, where Spark may not notice it, none."""
    one, orders = scheduler(kafka, topic, tmp_path, partitions=1), topic()
    options = ("--topic", one.topic, "--checkpoint", one.checkpoint, "--allow", "*")
    where = ("--dead-letters", one.letters, "--bootstrap", kafka.bootstrap)
    command = ("spark", "scheduler", "run", *options, *where)
    fenced = f"{one.checkpoint}: another scheduler was started on this checkpoint"
    with served(spark, one) as service:
        _sent(kafka, one, orders, "first")
        arrived(kafka, orders, 1)
        with beside(*command) as child:
            wait_until(service.done, "the first one ends")
            assert isinstance(service.exception(), FencedError)
            assert str(service.exception()).startswith(fenced)
            _sent(kafka, one, orders, "second")
            arrived(kafka, orders, 2)
            with running(spark, one):
                wait_until(lambda: child.poll() is not None, "the second one ends")
                _sent(kafka, one, orders, "third")
                arrived(kafka, orders, 3)
            assert FENCED == child.returncode
            assert fenced in said_by(child)
