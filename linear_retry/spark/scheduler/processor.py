"""The stateful processor: keeps chunks by bucket, and sends a bucket when its timer expires."""

import time
from collections.abc import Iterator
from typing import Any

import pandas as pd  # type: ignore[import-untyped]  # it has no types
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from linear_retry.spark.scheduler.buckets import Buckets
from linear_retry.spark.scheduler.held import (
    Held,
    bucket_of,
    bucket_of_timer,
    pack,
    timer_of,
    unpack,
)
from linear_retry.spark.scheduler.sender import Sender, Targets

OUTPUT = "sent bigint, letters bigint, undelivered bigint, problem string"
_AGAIN_MS = 30_000
"""Later than that what was not delivered is sent again: each attempt holds the others up."""


class SchedulerProcessor(StatefulProcessor):
    """Holds the messages of a shard; Spark calls it, in a task, for each micro-batch.

    A message is sent, and acknowledged, before the state without it is committed: killed in
    between, it is sent again, with the same id.
    """

    def __init__(self, targets: Targets) -> None:
        self._targets = targets

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Prepares for one micro-batch of one partition of the state."""
        self._handle = handle
        self._buckets = Buckets(handle)
        self._sender = Sender(self._targets)

    def handleInputRows(  # noqa: N802  (Spark's name)
        self,
        key: Any,  # noqa: ARG002
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: ARG002, N803
    ) -> Iterator[Any]:
        """Adds chunks to their buckets, with a timer for each new one."""
        for frame in rows:
            for bucket, content in zip(frame["bucket"].tolist(), frame["content"], strict=True):
                self._add(bucket, bytes(content))
        return iter(())

    def handleExpiredTimer(  # noqa: N802  (Spark's name)
        self,
        key: Any,  # noqa: ARG002
        timerValues: TimerValues,  # noqa: ARG002, N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Any]:
        """Sends a bucket's messages, each at its time; yields one row of `OUTPUT`."""
        bucket = bucket_of_timer(expiredTimerInfo.getExpiryTimeInMs())
        done = self._sender.send(unpack(self._buckets.take(bucket)))
        self._hold_again(done.undelivered)
        yield pd.DataFrame(
            {
                "sent": [done.messages],
                "letters": [done.letters],
                "undelivered": [len(done.undelivered)],
                "problem": [done.problem],
            }
        )

    def _hold_again(self, messages: tuple[Held, ...]) -> None:
        if messages:
            later = bucket_of(time.time_ns() // 1_000_000 + _AGAIN_MS)
            self._add(later, pack(messages))

    def _add(self, bucket: int, content: bytes) -> None:
        if self._buckets.append(bucket, content):
            self._handle.registerTimer(timer_of(bucket))

    def close(self) -> None:
        """Does nothing: each bucket is acknowledged before the next."""
