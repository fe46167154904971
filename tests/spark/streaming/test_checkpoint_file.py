"""How often a micro-batch has failed survives the process."""

import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from linear_retry.spark.streaming.checkpoint_file import FailureCount
from tests.conftest import TopicFactory
from tests.docs.markdown import ROOT
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka
from tests.spark import killed_waiting


def _count(spark: SparkSession, root: Path) -> FailureCount:
    return FailureCount(spark, SimpleNamespace(resolvedCheckpointRoot=lambda: root.as_uri()))


def test_it_is_of_one_micro_batch(spark: SparkSession, tmp_path: Path) -> None:
    """What was written last, to be read for that number only."""
    count = _count(spark, tmp_path)
    assert count.read(3) is None
    for failures in (1, 2):
        count.write(3, failures, 1000)
    assert (2, 1000) == _count(spark, tmp_path).read(3)
    assert count.read(4) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"[]", b"{}", b'{"batch":3,"failures":"2","first_ms":1}'],
)
def test_what_somebody_else_wrote_is_none(
    spark: SparkSession, tmp_path: Path, content: bytes
) -> None:
    """And no failure of the query."""
    (tmp_path / "linear-retry.json").write_bytes(content)
    assert _count(spark, tmp_path).read(3) is None


@pytest.mark.broker
def test_a_job_that_is_killed_again_and_again_comes_to_an_end(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """With one delay, the second failure gives the micro-batch up, though the first was of a
    process that was killed with -9."""
    name, letters = topic(), topic()
    kafka.produce(name, [(0, None, b"a", ())])
    job = kafka.bootstrap, name, letters, str(tmp_path / "c")
    command = [sys.executable, "-m", "tests.spark.killed_waiting", *job]
    done = subprocess.run(
        command, cwd=ROOT, start_new_session=True, check=False, timeout=PATIENCE_S
    )
    assert -signal.SIGKILL == done.returncode
    assert [] == kafka.read(letters)
    killed_waiting.run(spark, *job)
    assert [b"a"] == [each.value() for each in kafka.read(letters)]
