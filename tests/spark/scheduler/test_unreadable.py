"""Records that Spark cannot read are written again, each as often as it must be."""

import json
import os
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from linear_retry.errors import BrokerError
from linear_retry.spark.scheduler.checkpoint import Checkpoint
from linear_retry.spark.scheduler.intake import write_again
from tests.conftest import TopicFactory
from tests.real_kafka import RealKafka
from tests.spark.records import ANY_TIME, NANOSECONDS

pytestmark = pytest.mark.broker

_SHORT = {"max.message.bytes": "2000"}


def _planned(spark: SparkSession, directory: Path, topic: str, end: int) -> Checkpoint:
    """The checkpoint of a query that has planned its first micro-batch, up to `end`."""
    for name, offset in (("offsets", end), ("sources/0", 0)):
        (directory / name).mkdir(parents=True)
        offsets = json.dumps({topic: {"0": offset}})
        (directory / name / "0").write_text(f"v1\n{{}}\n{offsets}")
    return Checkpoint(spark, str(directory))


def _values(kafka: RealKafka, topic: str) -> list[bytes | None]:
    return [each.value() for each in kafka.read(topic)]


def test_a_record_that_was_compressed(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """The bug: it was written without compression, and refused for its length, at each start."""
    name, value = topic(1, ANY_TIME | _SHORT), b"0" * 20_000
    producer = Producer(kafka.client_settings(**{"compression.type": "gzip"}))
    producer.produce(name, value, timestamp=NANOSECONDS)
    producer.flush()
    checkpoint = _planned(spark, tmp_path, name, 1)
    assert 1 == write_again(spark, kafka.client_settings(), name, checkpoint)
    assert [value, value] == _values(kafka, name)


def test_what_stands_before_a_refused_record_is_written_once(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """The bug: at each start all that was before it was written again, and sent again."""
    name, long = topic(1, ANY_TIME), os.urandom(5_000)
    kafka.produce(name, [(0, None, value, ()) for value in (b"1", b"2", long)], NANOSECONDS)
    kafka.set_topic(name, _SHORT)
    checkpoint = _planned(spark, tmp_path, name, 3)
    for _ in range(2):
        with pytest.raises(BrokerError, match=r"raise the topic's max\.message\.bytes"):
            write_again(spark, kafka.client_settings(), name, checkpoint)
    assert [b"1", b"2", long, b"1", b"2"] == _values(kafka, name)
