"""Runs the scheduler's query, and starts it again where it fails."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from itertools import takewhile
from threading import Event, Thread
from typing import Any, TypeAlias
from uuid import uuid4

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from linear_retry.errors import BrokerError, LinearRetryError, UnknownTopicError
from linear_retry.log.lines import log_not_sent, log_query_failed, log_scheduler_on_spark
from linear_retry.spark.ingestion.sources import TOO_FAR, is_too_far
from linear_retry.spark.scheduler.checkpoint import (
    Checkpoint,
    CheckpointError,
    fenced,
    has_ended,
)
from linear_retry.spark.scheduler.query import OBSERVED, SchedulerOnSpark, start
from linear_retry.spark.session import JavaError, last_cause
from linear_retry.strategy.strategy import Strategy

Begin: TypeAlias = Callable[[SparkSession, SchedulerOnSpark, str, str | None], StreamingQuery]
"""Starts the query for the run of that id, after that error of its last one."""

_DELAYS_S = (1, 2, 5, 10, 30)
_LOOK_S = 1
_MARKER_S = 1.0
_POLL_S = 0.1
_MISSING_AT_MOST = 4
"""So often in a row a topic may be missing, which is for a quarter of a minute."""
_WELL_S = 60.0
"""After so long without a failure, the next one is the first again."""
_LOST = ("KAFKA_DATA_LOSS", "KafkaIllegalStateException")


def run(
    spark: SparkSession,
    scheduler: SchedulerOnSpark,
    begin: Begin = start,
    stop: Event | None = None,
) -> None:
    """Runs until `stop` is set or the query is stopped: the `session` does both at a signal.

    A failing query is started again, from its checkpoint. Raises what `start` does, the first time,
    `BrokerError` where the intake topic has lost records that were not read, `UnknownTopicError`
    where a topic stays missing, `FencedError` once another scheduler was started on the checkpoint,
    and `ConfigurationError` once that is drained or moved.
    """
    stop, failures, run_id = stop or Event(), _Failures(), uuid4().hex
    failed: str | None = None
    query = _begun(begin, (spark, scheduler, run_id, failed), stop)
    if query is not None:
        log_scheduler_on_spark(scheduler.topic, scheduler.checkpoint, scheduler.allow)
    while True:
        begun_s = time.monotonic()
        try:
            if query is None:
                query = _begun(begin, (spark, scheduler, run_id, failed), stop)
            if query is not None:
                _await_end(spark, query, scheduler, run_id)
        except (StreamingQueryException, BrokerError, CheckpointError, JavaError) as error:
            # A signal ends jobs as well, and what fails of that is no failure.
            if stop.is_set():
                return
            problem = _passing(scheduler, error)
            failed = str(error)
            wait_s = failures.wait_s(error, time.monotonic() - begun_s)
            log_query_failed(scheduler.topic, problem, wait_s)
            if stop.wait(wait_s):
                return
            query = None
        else:
            return


class _Failures:
    """How often the query has failed in a row."""

    def __init__(self) -> None:
        self._waits = list(Strategy(_DELAYS_S))
        self._count, self._missing = 0, 0

    def wait_s(self, error: Exception, ran_s: float) -> float:
        """Returns how long to wait after this failure; raises one that will not pass.

        A topic may be missing for a moment: a broker that starts answers before it has read which
        topics there are. One that stays missing was deleted, and if it is made again, it is
        another one, of which the checkpoint knows nothing.
        """
        self._missing = self._missing + 1 if isinstance(error, UnknownTopicError) else 0
        if self._missing == _MISSING_AT_MOST:
            raise error
        count = 0 if ran_s > _WELL_S else self._count
        self._count = count + 1
        return self._waits[min(count, len(self._waits) - 1)]


def _begun(
    begin: Begin,
    given: tuple[SparkSession, SchedulerOnSpark, str, str | None],
    stop: Event,
) -> StreamingQuery | None:
    """Starts the query; returns None once `stop` is set.

    In a thread of its own, which no exit waits for: without an answer from brokers, storage or
    Spark it lasts for minutes, and no signal interrupts it.
    """
    starting = Future[StreamingQuery]()

    def work() -> None:
        try:
            starting.set_result(begin(*given))
        except BaseException as error:  # noqa: BLE001  (passed to the caller by the future)
            starting.set_exception(error)

    Thread(target=work, name="linear_retry start", daemon=True).start()
    while not stop.is_set():
        if wait([starting], _POLL_S).done:
            return starting.result()
    starting.add_done_callback(_stop_late)
    return None


def _stop_late(starting: Future[StreamingQuery]) -> None:
    """Stops a query that nobody waits for any more."""
    if starting.exception() is None:
        starting.result().stop()


def _passing(scheduler: SchedulerOnSpark, error: Exception) -> str:
    """Returns the problem in one line; raises what does not pass."""
    problem = last_cause(str(error).partition("=== Streaming Query ===")[0])
    if any(word in str(error) for word in _LOST):
        raise BrokerError(
            f"{scheduler.topic}: records were removed before they were read: {problem}; "
            "lengthen the topic's retention, and begin with another checkpoint"
        ) from error
    return TOO_FAR if is_too_far(str(error)) else problem


def _await_end(
    spark: SparkSession, query: StreamingQuery, scheduler: SchedulerOnSpark, run_id: str
) -> None:
    """Returns once the query is stopped; logs meanwhile what it does not send.

    Raises `ConfigurationError` once its checkpoint is drained or moved, `FencedError` once another
    scheduler was started on it.
    """
    seen, is_over = "", False
    errors, done = list[LinearRetryError](), Event()
    checkpoint = Checkpoint(spark, scheduler.checkpoint)
    Thread(target=_watch, args=(checkpoint, run_id, errors, done), daemon=True).start()
    try:
        while not is_over and not errors:
            try:
                is_over = bool(query.awaitTermination(_LOOK_S))
            finally:
                for progress in _progress_since(query, seen):
                    seen = progress.timestamp
                    _log_not_sent(scheduler.topic, progress)
    finally:
        done.set()
    if errors:
        query.stop()
        raise errors[0]


def _watch(
    checkpoint: Checkpoint, run_id: str, errors: list[LinearRetryError], done: Event
) -> None:
    """Adds why the checkpoint must not be used any more, if that comes before `done`.

    A micro-batch that takes longer than a drain waits for one is not seen by it, and would send
    what the drain has sent. In a thread of its own: a storage that is away answers after minutes.
    """
    while not done.wait(_MARKER_S):
        # The query needs the storage more often, and says what is wrong with it.
        with suppress(CheckpointError):
            marker = checkpoint.marker()
            if marker is not None and marker.ended is not None:
                errors.append(has_ended(checkpoint.path, marker.ended))
                return
            if marker is not None and marker.run not in (None, run_id):
                errors.append(fenced(checkpoint.path))
                return


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
