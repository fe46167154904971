"""Two processes of `linear-retry scheduler run` on one store."""

import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

import pytest

from linear_retry.store.database import Database
from tests.conftest import TopicFactory
from tests.kafka_operations import Record, wait_until
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka
from tests.scheduler.process import SchedulerProcess, running_process
from tests.scheduler.running import counts, records, request

pytestmark = pytest.mark.broker

_PARTITIONS = 8


@contextmanager
def _two(
    kafka: RealKafka, topic: str, directory: Path, store_url: str
) -> Iterator[Sequence[SchedulerProcess]]:
    """Both have their share of the leases, and of the topic's partitions."""
    config = directory / "client.properties"
    config.write_text("session.timeout.ms=2000\nheartbeat.interval.ms=300\n")
    places = [directory / "first", directory / "second"]
    for place in places:
        place.mkdir()
    more = ("--store", store_url, "--config", str(config))
    with (
        running_process(kafka, topic, places[0], *more) as first,
        running_process(kafka, topic, places[1], *more) as second,
    ):
        for each in (first, second):
            each.wait_for_line("sends the lanes of leases")
        yield first, second


def _numbered(destination: str, numbers: Iterable[int]) -> list[Record]:
    """Each for the partition that its number has."""
    wanted: list[Record] = []
    for number in numbers:
        place = ("retry-original-partition", b"%d" % (number % _PARTITIONS))
        headers = request(destination, 0.0, place, ("retry-id", b"%d" % number))
        wanted.append((number % _PARTITIONS, None, b"%d" % number, headers))
    return wanted


def _by_partition(kafka: RealKafka, destination: str) -> list[list[int]]:
    found = sorted(records(kafka, destination), key=lambda each: (each.partition, each.offset))
    grouped = groupby(found, key=lambda each: each.partition)
    return [[int(each.value or b"") for each in of_one] for _, of_one in grouped]


def _are_all_there(kafka: RealKafka, destination: str, count: int) -> bool:
    return len({each.value for each in records(kafka, destination)}) == count


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_two_share_a_sqlite_file(
    kafka: RealKafka, topic: TopicFactory, database: Database, store_url: str, tmp_path: Path
) -> None:
    """On one machine: each message is sent once, and in the order of its partition."""
    intake, destination, count = topic(_PARTITIONS), topic(_PARTITIONS), 4_000
    with _two(kafka, intake, tmp_path, store_url) as processes:
        for start in range(0, count, 500):
            kafka.produce(intake, _numbered(destination, range(start, start + 500)))
        wait_until(lambda: _are_all_there(kafka, destination, count), "all are sent")
        wait_until(lambda: (0, 0) == counts(database), "nothing is left")
        for each in processes:
            each.process.send_signal(signal.SIGTERM)
            assert 0 == each.process.wait(PATIENCE_S)
    expected = [list(range(each, count, _PARTITIONS)) for each in range(_PARTITIONS)]
    assert expected == _by_partition(kafka, destination)


@pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
def test_one_is_suspended_and_woken_up(
    kafka: RealKafka, topic: TopicFactory, database: Database, store_url: str, tmp_path: Path
) -> None:
    """The whole process, in the middle of its work and past its leases: the other sends the rest in
    order, and repeats at most batches that were not finished; woken up, the first is fenced."""
    intake, destination, count = topic(_PARTITIONS), topic(_PARTITIONS), 12_000
    with _two(kafka, intake, tmp_path, store_url) as (first, second):
        kafka.produce(intake, _numbered(destination, range(count // 2)))
        wait_until(lambda: records(kafka, destination), "it sends")
        first.process.send_signal(signal.SIGSTOP)
        kafka.produce(intake, _numbered(destination, range(count // 2, count)))
        wait_until(
            lambda: _are_all_there(kafka, destination, count),
            "the other sends all",
            second.lines,
        )
        first.process.send_signal(signal.SIGCONT)
        kafka.produce(intake, _numbered(destination, range(count, count + 800)))
        wait_until(lambda: _are_all_there(kafka, destination, count + 800), "both send")
        wait_until(lambda: (0, 0) == counts(database), "nothing is left")
        for each in (first, second):
            each.process.send_signal(signal.SIGTERM)
            assert 0 == each.process.wait(PATIENCE_S)
    for partition, numbers in enumerate(_by_partition(kafka, destination)):
        once = list(dict.fromkeys(numbers))
        assert list(range(partition, count + 800, _PARTITIONS)) == once
        _check_repeated(numbers)


def _check_repeated(numbers: Sequence[int]) -> None:
    """What comes twice is the end of what was sent until then: an unfinished batch."""
    seen: list[int] = []
    for number in numbers:
        if seen and number <= seen[-1]:
            assert seen[-1] - number < 500 * _PARTITIONS
            del seen[seen.index(number) :]
        seen.append(number)
