"""The service starts its query again where that can help, and says what is not sent."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from linear_retry.errors import BrokerError, ConfigurationError, FencedError, UnknownTopicError
from linear_retry.spark.scheduler import service
from linear_retry.spark.scheduler.checkpoint import Checkpoint, CheckpointError, Marker
from linear_retry.spark.scheduler.query import SchedulerOnSpark
from linear_retry.spark.scheduler.service import run
from tests.patience import PATIENCE_S

_SPARK = cast(SparkSession, None)
_ONE = SchedulerOnSpark(config={}, topic="scheduled", checkpoint="state", allow=("*",))


class _Query:
    """A query without progress, which ends at once, with the error if there is one, or lasts."""

    _jsq = SimpleNamespace(recentProgress=list)

    def __init__(self, error: Exception | None = None, *, lasts: bool = False) -> None:
        self._error, self._lasts = error, lasts
        self.stopped = Event()

    def awaitTermination(self, timeout_s: float) -> bool:  # noqa: N802  (Spark's name)
        if self._error is not None:
            raise self._error
        return not self._lasts or self.stopped.wait(timeout_s)

    def stop(self) -> None:
        self.stopped.set()


_FAILED = _Query(StreamingQueryException("gone"))


class _Stop(Event):
    """Is set at the given wait for it, and never waits."""

    def __init__(self, at: int | None = None) -> None:
        super().__init__()
        self.waited_s, self._at = list[float | None](), at

    def wait(self, timeout: float | None = None) -> bool:
        self.waited_s.append(timeout)
        if len(self.waited_s) == self._at:
            self.set()
        return self.is_set()


def _in_turn(*starts: _Query | Exception) -> Callable[..., StreamingQuery]:
    left = iter(starts)

    def begin(*_: Any) -> StreamingQuery:
        found = next(left)
        if isinstance(found, Exception):
            raise found
        return cast(StreamingQuery, found)

    return begin


def test_a_storage_that_is_away_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    """A checkpoint that cannot be read at a restart does not end the process."""
    away = CheckpointError("state: java.net.ConnectException: refused")
    caplog.set_level(logging.WARNING)
    run(_SPARK, _ONE, _in_turn(_FAILED, away, _Query()), _Stop())
    assert ["gone", str(away)] == [
        each.linear_retry_problem for each in cast(list[Any], caplog.records)
    ]


def test_a_checkpoint_that_cannot_be_read_at_first() -> None:
    """Nobody waits for a path that may be wrong."""
    with pytest.raises(CheckpointError, match="refused"):
        run(_SPARK, _ONE, _in_turn(CheckpointError("refused")))


def test_it_is_stopped_between_two_starts() -> None:
    """It used to be started again for as long as its brokers were away, whatever the signal."""
    begin = _in_turn(_FAILED, *[BrokerError("no answer")] * 9)
    stop = _Stop(3)
    run(_SPARK, _ONE, begin, stop)
    assert [1, 2, 5] == stop.waited_s


def test_it_is_stopped_while_it_starts() -> None:
    """Nobody waits for a start that has no answer; a query that comes of it later is stopped."""
    stop, answered, query = Event(), Event(), _Query()

    def begin(*_: Any) -> StreamingQuery:
        stop.set()
        assert answered.wait(PATIENCE_S)
        return cast(StreamingQuery, query)

    run(_SPARK, _ONE, begin, stop)
    assert not query.stopped.is_set()
    answered.set()
    assert query.stopped.wait(PATIENCE_S)


def test_what_a_signal_ends_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    """It ends Spark's jobs as well, and of what fails by that nothing is said."""
    stop = Event()

    class Cancelled(_Query):
        def awaitTermination(self, _: float) -> bool:  # noqa: N802  (Spark's name)
            stop.set()
            raise StreamingQueryException("Job 7 cancelled")

    caplog.set_level(logging.WARNING)
    run(_SPARK, _ONE, _in_turn(Cancelled()), stop)
    assert [] == caplog.records


def test_a_topic_that_is_missing_for_a_moment() -> None:
    """A broker that starts may not know its topics yet."""
    missing, stop = [UnknownTopicError("scheduled")] * 3, _Stop()
    run(_SPARK, _ONE, _in_turn(_FAILED, *missing, _FAILED, *missing, _Query()), stop)
    assert [1, 2, 5, 10, 30, 30, 30, 30] == stop.waited_s


def test_a_topic_that_is_deleted() -> None:
    """The scheduler ends with the error: it used to start again for ever."""
    stop = _Stop()
    with pytest.raises(UnknownTopicError, match="scheduled"):
        run(_SPARK, _ONE, _in_turn(_FAILED, *[UnknownTopicError("scheduled")] * 9), stop)
    assert [1, 2, 5, 10] == stop.waited_s


def test_a_checkpoint_that_is_drained_meanwhile(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query is stopped, with a sentence: a drain may not see one whose micro-batch takes long,
    and all would be sent twice."""
    monkeypatch.setattr(service, "_MARKER_S", 0.1)
    one, query = replace(_ONE, checkpoint=str(tmp_path)), _Query(lasts=True)
    ended = Marker(topic="scheduled", topic_id="id", partitions=1, ended="it was drained to orders")
    Checkpoint(spark, one.checkpoint).write(ended)
    with pytest.raises(ConfigurationError, match="it was drained to orders; what it held would be"):
        run(spark, one, _in_turn(query))
    assert query.stopped.is_set()


def test_one_that_is_started_later(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query of the earlier one is stopped, with a sentence, whether Spark notices the other one
    or not: on S3 it may not, and both sent every message."""
    monkeypatch.setattr(service, "_MARKER_S", 0.1)
    one, query = replace(_ONE, checkpoint=str(tmp_path)), _Query(lasts=True)
    marker = Marker(topic="scheduled", topic_id="id", partitions=1, run="of another one")
    Checkpoint(spark, one.checkpoint).write(marker)
    with pytest.raises(FencedError, match="another scheduler was started on this checkpoint, whi"):
        run(spark, one, _in_turn(query))
    assert query.stopped.is_set()
