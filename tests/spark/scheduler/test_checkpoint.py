"""The scheduler's own file in its checkpoint: written completely, and never misread."""

import json
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from linear_retry.errors import UsageError
from linear_retry.spark.scheduler.checkpoint import Checkpoint, CheckpointError, Marker

_NAME = "linear-retry-scheduler.json"
_MARKER = Marker(
    topic="scheduled", topic_id="id", partitions=2, starting={"0": 7}, run="run", ended="moved"
)


def test_it_is_read_as_it_was_written(spark: SparkSession, tmp_path: Path) -> None:
    """In a directory that is new, and over an older one; only its checksum is left beside it."""
    for marker in (Marker(topic="scheduled", topic_id="id", partitions=2), _MARKER):
        Checkpoint(spark, f"{tmp_path}/state").write(marker)
        assert marker == Checkpoint(spark, f"{tmp_path}/state/").marker()
    found = sorted(each.name for each in (tmp_path / "state").iterdir())
    assert [f".{_NAME}.crc", _NAME] == found


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"\xff", b"[]", b"{}", b'{"version":"1"}', b'{"version":1,"topic":"scheduled"}'),
        b'{"version":1,"topic":"t","topic_id":"i","partitions":2,"starting":{"0":"7"}}',
    ],
)
def test_a_broken_one(spark: SparkSession, tmp_path: Path, content: bytes) -> None:
    """The error says how to go on, with the number of partitions that the state has."""
    (tmp_path / _NAME).write_bytes(content)
    for number in range(3):
        (tmp_path / "state" / "0" / f"{number}").mkdir(parents=True)
    with pytest.raises(CheckpointError, match=_NAME) as raised:
        Checkpoint(spark, str(tmp_path)).marker()
    assert "delete that file and run the scheduler with --partitions 3" in str(raised.value)


def test_it_needs_no_checksum(spark: SparkSession, tmp_path: Path) -> None:
    """On a local disk that is another file: a process that is killed between the two leaves a
    marker without one."""
    Checkpoint(spark, str(tmp_path)).write(_MARKER)
    (tmp_path / f".{_NAME}.crc").unlink()
    assert _MARKER == Checkpoint(spark, str(tmp_path)).marker()


@pytest.mark.parametrize(
    ("said", "error", "match"),
    [
        ("Multiple streaming queries are concurrently using metadata.", UsageError, "stop one of"),
        ("java.io.IOException: no space left", CheckpointError, "state: .*no space left; check"),
    ],
)
def test_what_spark_says_of_it(said: str, error: type[Exception], match: str) -> None:
    """Another scheduler that begins on it at the same moment is named: it used to be a traceback
    of the JVM."""
    checkpoint = Checkpoint(cast(SparkSession, None), "state")
    with pytest.raises(error, match=match):
        raise checkpoint.unusable(RuntimeError(said))


def test_one_of_a_newer_version(spark: SparkSession, tmp_path: Path) -> None:
    """The error says so, whatever else is in it: it used to be "not readable"."""
    later = {"version": 2, "name": "another field"}
    (tmp_path / _NAME).write_text(json.dumps(later))
    with pytest.raises(CheckpointError, match="a newer linear_retry has made it; use that"):
        Checkpoint(spark, str(tmp_path)).marker()
