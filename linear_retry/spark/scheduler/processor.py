"""The stateful processor: keeps chunks by bucket, and sends a bucket when its timer expires."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pandas as pd  # type: ignore[import-untyped]  # it has no types
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from linear_retry.spark.scheduler.held import (
    BUCKET_MS,
    Buckets,
    Held,
    WaitingLanes,
    bucket_of,
    bucket_of_timer,
    in_order,
    in_parts,
    pack,
    timer_of,
)
from linear_retry.spark.scheduler.sender import Sender, Targets, Undelivered

OUTPUT = "sent bigint, letters bigint, undelivered bigint, problem string"
_AGAIN_MS = 30_000
"""Later than that what was not delivered is sent again: each attempt holds the others up."""


class SchedulerProcessor(StatefulProcessor):
    """Holds the messages of a shard; Spark calls it, in a task, for each micro-batch.

    A message is sent, and acknowledged, before the state without it is committed: killed in
    between, it is sent again, with the same id.
    """

    def __init__(self, targets: Targets, sender: Callable[[Targets], Sender] = Sender) -> None:
        self._targets = targets
        self._make = sender

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Prepares for one micro-batch of one partition of the state."""
        self._handle = handle
        self._buckets = Buckets(handle)
        self._lanes = WaitingLanes(handle)
        self._sender = self._make(self._targets)

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
        self._lanes.release(bucket)
        sent = letters = undelivered = 0
        problem = None
        for part in in_parts(in_order(self._buckets.take(bucket))):
            done = self._sender.send(part, self._lanes.lanes)
            self._hold_again(done.undelivered, bucket)
            sent, letters = sent + done.messages, letters + done.letters
            undelivered += len(done.undelivered)
            problem = problem or done.problem
        yield pd.DataFrame(
            {
                "sent": [sent],
                "letters": [letters],
                "undelivered": [undelivered],
                "problem": [problem],
            }
        )

    def _hold_again(self, undelivered: Sequence[Undelivered], taken: int) -> None:
        """Puts what comes next in a lane into one bucket, which is sorted when it is taken."""
        if not undelivered:
            return
        later = max(bucket_of(time.time_ns() // 1_000_000 + _AGAIN_MS), taken + BUCKET_MS)
        chunks = defaultdict[int, list[Held]](list)
        for each in undelivered:
            bucket = later if each.lane is None else self._lanes.hold(each.lane, later)
            chunks[bucket].append(each.message)
        for bucket, messages in chunks.items():
            self._add(bucket, pack(messages))

    def _add(self, bucket: int, content: bytes) -> None:
        if self._buckets.append(bucket, content):
            self._handle.registerTimer(timer_of(bucket))

    def close(self) -> None:
        """Does nothing: each bucket is acknowledged before the next."""
