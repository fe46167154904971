"""Reassigns partitions that deliver none of their messages, or were given up but stayed ours."""

from collections.abc import Callable
from concurrent.futures import Future

from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.kafka.topics.admin import GIVEN_UP_AFTER_S
from linear_retry.scope import Partition


class StalledPartitionWatchdog:
    """The watchdog for partitions that librdkafka has stalled: no error, nothing delivered.

    A partition reports its end (`enable.partition.eof`), so silence is suspicious; the broker's
    answer tells a stall from a broker that is down, or an empty log. The cached watermarks are no
    substitute: they are stale on a stalled partition.
    """

    def __init__(
        self,
        assignment: Assignment,
        read_ahead: ReadAhead,
        flow_control: FlowControl,
        ask_end: Callable[[Partition], Future[int]],
        sees_brokers: Callable[[], bool],
    ) -> None:
        """`ask_end` asks the broker for the end, for our isolation level, without waiting."""
        self._assignment = assignment
        self._offsets = flow_control.offsets
        self._read_ahead = read_ahead
        self._flow_control = flow_control
        self._ask_end = ask_end
        self._sees_brokers = sees_brokers
        self._asked: dict[Partition, tuple[int, Future[int], float]] = {}

    def reclaim(self) -> None:
        """Reclaims what was given up, that librdkafka still has and nobody has taken since."""
        reclaimable = self._assignment.reclaimable()
        # With no broker, nobody could have taken it, so this proves nothing. And a removed
        # KIP-848 member that restarts a partition without a broker never joins again.
        if reclaimable and self._sees_brokers():
            self._flow_control.reclaim(reclaimable)

    def tick(self) -> None:
        """Asks about suspiciously silent partitions; revives those that turn out to be stalled."""
        # With a full queue a partition may be silent for minutes, its messages behind the others';
        # a restart would put it at the end of that queue, again and again.
        if self._assignment.undisturbed or not self._read_ahead.dry:
            return
        now_s = self._assignment.now_s()
        for partition in self._assignment.suspiciously_silent():
            if partition not in self._asked and not self._flow_control.is_paused(partition):
                epoch = self._assignment.epoch
                until_s = now_s + GIVEN_UP_AFTER_S
                self._asked[partition] = epoch, self._ask_end(partition), until_s
        for partition, (epoch, answer, until_s) in tuple(self._asked.items()):
            if answer.done() or now_s > until_s:
                del self._asked[partition]
            if answer.done():
                self._evaluate(partition, epoch, answer)

    def _evaluate(self, partition: Partition, epoch: int, answer: Future[int]) -> None:
        is_same = self._assignment.epoch == epoch and self._assignment.is_silent(partition)
        if not is_same or self._flow_control.is_paused(partition):
            return
        next_offset = self._offsets.next_offset(partition) or 0
        if answer.exception() is None and answer.result() > next_offset:
            self._flow_control.revive(partition, "it has messages, but delivered none")
        self._assignment.extend_timeout(partition)
