"""One ingest of a topic runs at a time, and none waits for a dead one."""

import fcntl
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from linear_retry.spark import DEAD_LETTERS, Lake, LakeError, ingest
from linear_retry.spark.lake.lock import LEASE_S, Lease, LockedError
from tests.conftest import TopicFactory
from tests.real_kafka import RealKafka


@pytest.mark.broker
def test_a_second_ingest_is_refused(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """Whether it is in this process or another one; and once the first has ended it is not."""
    letters, lake = topic(), Lake(spark, str(tmp_path))
    lake.prepare(DEAD_LETTERS, letters)
    config = {"bootstrap.servers": kafka.bootstrap}
    text = f"another ingest is adding the rows of '{letters}'; wait until it has ended"
    with lake.locked(DEAD_LETTERS, letters), pytest.raises(LakeError, match=text):
        ingest(spark, config, str(tmp_path), dead_letters=[letters])
    with (tmp_path / "_ingest" / DEAD_LETTERS / letters / "lock").open("r+") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        with pytest.raises(LakeError, match=text):
            ingest(spark, config, str(tmp_path), dead_letters=[letters])
    with lake.locked(DEAD_LETTERS, letters) as check:
        check()


class _Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def _leased(spark: SparkSession, place: Path, clock: _Clock) -> Lease:
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(str(place))
    return Lease(path.getFileSystem(spark._jsc.hadoopConfiguration()), path, clock)


def _grow_old(place: Path) -> None:
    at_s = place.stat().st_mtime - LEASE_S - 1
    os.utime(place, (at_s, at_s))


def test_a_lease_is_kept_by_renewing_it(spark: SparkSession, tmp_path: Path) -> None:
    """Who has it writes it again; who lets it go leaves nothing behind."""
    place, clock = tmp_path / "lock", _Clock()
    first = _leased(spark, place, clock)
    with pytest.raises(LockedError):
        _leased(spark, place, clock)
    _grow_old(place)
    clock.now_s = 20.0
    first.renew()
    with pytest.raises(LockedError):
        _leased(spark, place, clock)
    first.release()
    _leased(spark, place, clock).release()
    assert not place.exists()


def test_a_lease_of_the_dead_is_taken_over(spark: SparkSession, tmp_path: Path) -> None:
    """Who was thought dead, and is not, is told; it takes nothing away from its successor."""
    place, clock = tmp_path / "lock", _Clock()
    stopped = _leased(spark, place, clock)
    _grow_old(place)
    _leased(spark, place, clock)
    clock.now_s = 20.0
    with pytest.raises(LockedError):
        stopped.renew()
    stopped.release()
    with pytest.raises(LockedError):
        _leased(spark, place, clock)
