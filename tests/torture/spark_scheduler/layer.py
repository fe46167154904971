"""The layer: the scheduler on Spark is killed at any moment, and another one continues."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from linear_retry.kafka.consumer.messages import read
from linear_retry.records.record import Record
from tests.kafka_operations import wait_until
from tests.real_kafka import RealKafka
from tests.spark.scheduler.running import now_ms, request
from tests.torture.layer import Counts, OnBroker

_MESSAGES = 400
_PARTITIONS = 3
_FIRST_S, _WITHIN_S = 10, 40
_KILLS = 3


def play(seed: int, kafka: RealKafka) -> Counts:
    """Each message comes at its time or later, as it was; once, or again with the same id."""
    rng = random.Random(seed)
    intake, orders = f"scheduled-{seed}-{now_ms()}", f"orders-{seed}-{now_ms()}"
    for topic, partitions in ((intake, 2), (f"{intake}.dlq", 1), (orders, _PARTITIONS)):
        kafka.create_topic(topic, partitions)
    due_ms = _produced(kafka, intake, orders, rng)
    kills = 1 + seed % _KILLS
    with tempfile.TemporaryDirectory() as checkpoint:
        for _ in range(kills):
            with _running(kafka, intake, checkpoint):
                time.sleep(rng.uniform(0.0, 10.0))  # the moment itself is what is tried
        with _running(kafka, intake, checkpoint):
            found = wait_until(lambda: _all_of(kafka, orders), "all have come")
    assert not kafka.read(f"{intake}.dlq")
    for number, records in found.items():
        for each in records:
            assert each.timestamp_ms >= due_ms[number], f"{number} is early"
            assert number % _PARTITIONS == each.partition, f"{number} is in {each.partition}"
    again = sum(len(records) - 1 for records in found.values())
    return Counter({"kills": kills, "messages": _MESSAGES, "sent again": again})


def _produced(kafka: RealKafka, intake: str, orders: str, rng: random.Random) -> list[int]:
    begin_ms = now_ms() + 1000 * _FIRST_S
    due_ms = [begin_ms + rng.randrange(1000 * _WITHIN_S) for _ in range(_MESSAGES)]
    kafka.produce(
        intake,
        (
            (n % 2, b"key", b"%d" % n, request(orders, at_ms, f"{n}", n % _PARTITIONS))
            for n, at_ms in enumerate(due_ms)
        ),
    )
    return due_ms


def _all_of(kafka: RealKafka, orders: str) -> dict[int, list[Record]] | None:
    found = defaultdict[int, list[Record]](list)
    for each in map(read, kafka.read(orders)):
        found[int(each.value or b"")].append(each)
    return found if len(found) == _MESSAGES else None


@contextmanager
def _running(kafka: RealKafka, intake: str, checkpoint: str) -> Iterator[None]:
    """A scheduler, which is killed at the end with all of its processes."""
    command = (sys.executable, "-m", "tests.torture.spark_scheduler.child")
    child = subprocess.Popen(
        [*command, kafka.bootstrap, intake, checkpoint],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "started\n", "it has not started"
            yield
        finally:
            os.killpg(child.pid, signal.SIGKILL)


SPARK_SCHEDULER = OnBroker("spark-scheduler", "plays", 1, 20, play)
