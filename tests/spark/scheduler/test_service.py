"""The service starts its query again where that can help, and says what is not sent."""

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from linear_retry.errors import UsageError
from linear_retry.spark.scheduler.checkpoint import CheckpointError
from linear_retry.spark.scheduler.query import SchedulerOnSpark
from linear_retry.spark.scheduler.service import run

_SPARK = cast(SparkSession, None)
_ONE = SchedulerOnSpark(config={}, topic="scheduled", checkpoint="state", allow=("*",))


class _Query:
    """A query without progress, which ends at once, with the error if there is one."""

    _jsq = SimpleNamespace(recentProgress=list)

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    def awaitTermination(self, _: float) -> bool:  # noqa: N802  (Spark's name)
        if self._error is not None:
            raise self._error
        return True


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
    run(_SPARK, _ONE, _in_turn(_Query(StreamingQueryException("gone")), away, _Query()))
    assert ["gone", str(away)] == [
        each.linear_retry_problem for each in cast(list[Any], caplog.records)
    ]


def test_a_checkpoint_that_cannot_be_read_at_first() -> None:
    """Nobody waits for a path that may be wrong."""
    with pytest.raises(CheckpointError, match="refused"):
        run(_SPARK, _ONE, _in_turn(CheckpointError("refused")))


def test_two_on_one_checkpoint() -> None:
    """The one that is ended by the other does not come back, or they would do so for ever."""
    error = StreamingQueryException("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log")
    with pytest.raises(UsageError, match="state: another scheduler runs on this checkpoint; stop"):
        run(_SPARK, _ONE, _in_turn(_Query(error)))
