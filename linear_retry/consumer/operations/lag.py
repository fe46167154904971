"""Asks the brokers how much the group has yet to do in each partition."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import suppress
from dataclasses import dataclass

from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.offsets import Offsets
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.kafka import KafkaException
from linear_retry.kafka.consumer.committed import Committed
from linear_retry.kafka.consumer.settings import ConsumerSettings
from linear_retry.kafka.topics.admin import Admin
from linear_retry.scope import Partition


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a group has yet to do in one partition.

    `lag` counts the offsets from the committed one to the end, as Kafka's tools do. Where keys are
    in order, `done_above` of these are done, and `waiting` are messages behind held ones.
    """

    lag: int
    done_above: int = 0
    waiting: int = 0

    @property
    def unfinished(self) -> int:
        """The offsets that are not done."""
        return self.lag - self.done_above


class Lag:
    """Computes the lag from the brokers: librdkafka's own is frozen while a partition is paused.

    For any thread but the owner's, which it would block. Only one thread at a time uses `edges`.
    """

    def __init__(
        self,
        settings: ConsumerSettings,
        assignment: Assignment,
        offsets: Offsets,
        read_ahead: ReadAhead,
        edges: Admin,
        starts: Committed,
    ) -> None:
        self._read_ahead = read_ahead
        self._settings = settings
        self._assignment = assignment
        self._offsets = offsets
        self._edges = edges
        self._starts = starts
        self._asking = threading.Lock()
        self._closed = False

    def ask(self, timeout_s: float) -> dict[Partition, Backlog]:
        """Returns the backlog of each assigned partition, without those without an answer in time.

        A negative lag: the log ends before what the group has committed.
        """
        give_up_at_s = time.monotonic() + timeout_s
        partitions = self._assignment.partitions
        # Before the ends: a commit in between must not make the lag negative.
        starts = self._starts.ask(partitions, timeout_s) if partitions else None
        if starts is None:
            return {}
        missing = [key for key in partitions if key not in starts]
        starts |= self._first(missing, give_up_at_s)
        ends = self._answers(self._edges.ask_ends, partitions, give_up_at_s)
        return {
            key: self._backlog(key, starts[key], end) for key, end in ends.items() if key in starts
        }

    def close(self) -> None:
        """Stops asking. Does not wait for a request in progress."""
        with self._asking:
            self._closed = True
            self._edges.close()
        self._starts.close()

    def _backlog(self, partition: Partition, committed: int, end: int) -> Backlog:
        lag = self._offsets.to_read(partition, committed, end) or min(end - committed, 0)
        base = self._offsets.next_offset(partition)
        if base is None or lag <= 0:
            return Backlog(lag)
        above, waiting = self._read_ahead.count_beyond(partition, base)
        # Asked for at different times: what is done may be more than the brokers know of by then.
        return Backlog(lag, min(max(base - committed, 0) + above, lag), waiting)

    def _first(self, partitions: Sequence[Partition], give_up_at_s: float) -> dict[Partition, int]:
        """Returns the beginning offsets of partitions without a committed offset."""
        known = {key: self._offsets.next_offset(key) for key in partitions}
        found = {key: offset for key, offset in known.items() if offset is not None}
        unknown = [key for key in partitions if key not in found]
        skips = self._settings.reset == "latest"
        edge = self._edges.ask_ends if skips else self._edges.ask_beginnings
        return found | self._answers(edge, unknown, give_up_at_s)

    def _answers(
        self,
        question: Callable[[Sequence[Partition]], dict[Partition, Future[int]]],
        partitions: Sequence[Partition],
        give_up_at_s: float,
    ) -> dict[Partition, int]:
        """Collects the answers, without those that failed or came too late."""
        asked: dict[Partition, Future[int]] = {}
        with self._asking, suppress(KafkaException):
            if partitions and not self._closed:
                asked = question(partitions)
        done, _ = wait_for(asked.values(), max(give_up_at_s - time.monotonic(), 0.0))
        return {
            key: answer.result()
            for key, answer in asked.items()
            if answer in done and answer.exception() is None
        }
