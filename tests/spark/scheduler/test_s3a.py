"""The scheduler with its checkpoint on an object store, where a rename is a copy."""

import json
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.kafka.consumer.messages import read
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.real_kafka import RealKafka
from tests.spark.alone import alone
from tests.spark.conftest import with_s3a
from tests.spark.ingestion.object_store import ObjectStore, object_store
from tests.spark.scheduler.running import arrived, now_ms, request

pytestmark = [pytest.mark.broker, pytest.mark.long]

_SOON, _LATER = 40, 8
_FIRST_MS, _WITHIN_MS = 40_000, 40_000


@pytest.fixture
def store(spark: SparkSession) -> Iterator[ObjectStore]:
    """One that the test's Spark can use too."""
    with object_store() as made:
        jvm: Any = spark._jsc
        for name, value in made.hadoop().items():
            jvm.hadoopConfiguration().set(name, value)
        yield made


def _times_ms(kafka: RealKafka, topic: str) -> dict[bytes, list[int]]:
    """When each was sent, by its id."""
    found = defaultdict[bytes, list[int]](list)
    for each in map(read, kafka.read(topic)):
        found[dict(each.headers)["retry-id"] or b""].append(each.timestamp_ms)
    return found


def test_killed_on_an_object_store(
    kafka: RealKafka, topic: TopicFactory, store: ObjectStore
) -> None:
    """After a kill each message comes, none early, and none more than twice; what waits is counted
    while the scheduler runs, and drained once it is gone."""
    intake, letters, orders = topic(2), topic(), topic()
    settings = {f"spark.hadoop.{name}": value for name, value in store.hadoop().items()}
    settings |= {"spark.jars": with_s3a()["spark.jars"]}
    state = ("--checkpoint", f"{store.lake}/scheduler")
    where = ("--topic", intake, *state, "--bootstrap", kafka.bootstrap)
    run = ("spark", "scheduler", "run", *where, "--allow", "*", "--dead-letters", letters)
    begin_ms = now_ms() + _FIRST_MS
    due_ms = [begin_ms + n * _WITHIN_MS // _SOON for n in range(_SOON)]
    due_ms += [begin_ms + 3_600_000] * _LATER
    kafka.produce(
        intake,
        [(n % 2, b"key", b"", request(orders, at_ms, f"{n}")) for n, at_ms in enumerate(due_ms)],
    )

    def come(wanted: int) -> bool:
        return len(_times_ms(kafka, orders)) >= wanted

    with alone(settings, *run, "--partitions", "2"):
        wait_until(partial(come, _SOON // 4), "some come")
    with alone(settings, *run):
        wait_until(partial(come, _SOON), "all come")
        # A message is sent before the state without it is committed.
        wait_until(lambda: _waiting(*state) == [(orders, _LATER)], "the others wait")
    found = _times_ms(kafka, orders)
    assert {b"%d" % n for n in range(_SOON)} == found.keys()
    for number, times in found.items():
        assert len(times) <= 2
        assert min(times) >= due_ms[int(number)]
    assert f"{_LATER} messages" in _ran("drain", *where, "--to", letters, "--yes")
    drained = {dict(each.headers)["retry-id"] for each in arrived(kafka, letters, _LATER)}
    assert {b"%d" % n for n in range(_SOON, _SOON + _LATER)} == drained


def _waiting(*state: str) -> list[tuple[str, int]]:
    rows = map(json.loads, _ran("stats", *state, "--json").splitlines())
    return [(row["destination"], row["waiting"]) for row in rows]


def _ran(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["spark", "scheduler", *arguments])
    assert 0 == result.exit_code, result.output
    return result.stdout
