"""Runs the scheduler's query, and starts it again where it fails."""

import time
from collections.abc import Callable, Sequence
from itertools import takewhile
from threading import Event
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from linear_retry.errors import BrokerError
from linear_retry.log.lines import log_not_sent, log_query_failed, log_scheduler_on_spark
from linear_retry.spark.errors import JavaError, is_concurrent, last_cause
from linear_retry.spark.scheduler.checkpoint import CheckpointError, in_use
from linear_retry.spark.scheduler.query import OBSERVED, SchedulerOnSpark, start
from linear_retry.strategy.strategy import Strategy

_DELAYS_S = (1, 2, 5, 10, 30)
_LOOK_S = 1
_WELL_S = 60.0
"""After so long without a failure, the next one is the first again."""
_LOST = ("KAFKA_DATA_LOSS", "KafkaIllegalStateException")


def run(
    spark: SparkSession,
    scheduler: SchedulerOnSpark,
    begin: Callable[[SparkSession, SchedulerOnSpark], StreamingQuery] = start,
) -> None:
    """Runs until the query is stopped, as Ctrl-C and SIGTERM do inside `session`.

    A failing query is started again, from its checkpoint. Raises what `start` does, the first time,
    `BrokerError` where the intake topic has lost records that were not read, and `UsageError` where
    another scheduler runs on the checkpoint.
    """
    failures, waits = 0, list(Strategy(_DELAYS_S))
    query: StreamingQuery | None = begin(spark, scheduler)
    log_scheduler_on_spark(scheduler.topic, scheduler.checkpoint, scheduler.allow)
    while True:
        begun_s = time.monotonic()
        try:
            if query is None:
                query = begin(spark, scheduler)
            _await_end(query, scheduler.topic)
        except (StreamingQueryException, BrokerError, CheckpointError, JavaError) as error:
            problem = _passing(scheduler, error)
            failures = 0 if time.monotonic() - begun_s > _WELL_S else failures
            wait_s = waits[min(failures, len(waits) - 1)]
            log_query_failed(scheduler.topic, problem, wait_s)
            Event().wait(wait_s)
            query, failures = None, failures + 1
        else:
            return


def _passing(scheduler: SchedulerOnSpark, error: Exception) -> str:
    """Returns the problem in one line; raises what does not pass."""
    problem = last_cause(str(error).partition("=== Streaming Query ===")[0])
    if any(word in str(error) for word in _LOST):
        raise BrokerError(
            f"{scheduler.topic}: records were removed before they were read: {problem}; "
            "lengthen the topic's retention, and begin with another checkpoint"
        ) from error
    if is_concurrent(str(error)):
        # Started again, each would end the other for ever.
        raise in_use(scheduler.checkpoint) from error
    return problem


def _await_end(query: StreamingQuery, topic: str) -> None:
    """Returns once the query is stopped; logs meanwhile what it does not send."""
    seen, has_ended = "", False
    while not has_ended:
        try:
            has_ended = bool(query.awaitTermination(_LOOK_S))
        finally:
            for progress in _progress_since(query, seen):
                seen = progress.timestamp
                _log_not_sent(topic, progress)


def _progress_since(query: StreamingQuery, seen: str) -> list[StreamingQueryProgress]:
    """Returns what came after that time, in order.

    A busy machine has several micro-batches between two looks. `query.recentProgress` would
    convert a hundred of them each time, which takes longer than a micro-batch.
    """
    recent: Sequence[Any] = query._jsq.recentProgress()
    new = takewhile(lambda each: each.timestamp() > seen, reversed(recent))
    return [StreamingQueryProgress.fromJObject(each) for each in new][::-1]


def _log_not_sent(topic: str, progress: StreamingQueryProgress) -> None:
    sums = progress.observedMetrics.get(OBSERVED)
    if sums is not None and (sums["letters"] or sums["undelivered"]):
        log_not_sent(topic, sums["letters"], sums["undelivered"], sums["problem"])
