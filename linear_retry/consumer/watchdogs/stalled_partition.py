"""Re-assigns partitions that have messages and deliver none, or were given up and stayed ours."""

from collections.abc import Callable
from concurrent.futures import Future

from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.scope import Partition


class StalledPartitionWatchdog:
    """The watchdog for partitions that librdkafka has left dead: no error, nothing delivered.

    A partition that is at its end says so (`enable.partition.eof`), so silence is suspicious; the
    broker's answer tells it from a broker that is down or an empty log. The cached watermarks
    would not do: they are stale on a dead partition.
    """

    def __init__(
        self,
        assignment: Assignment,
        read_ahead: ReadAhead,
        flow_control: FlowControl,
        ask_end: Callable[[Partition], Future[int]],
        sees_brokers: Callable[[], bool],
    ) -> None:
        """`ask_end`: the broker's end for our isolation level, asked without waiting."""
        self._assignment = assignment
        self._offsets = flow_control.offsets
        self._read_ahead = read_ahead
        self._flow_control = flow_control
        self._ask_end = ask_end
        self._sees_brokers = sees_brokers
        self._asked: dict[Partition, tuple[int, Future[int]]] = {}

    def reclaim(self) -> None:
        """Take back what was given up, nobody has taken since, and librdkafka still has."""
        reclaimable = self._assignment.reclaimable()
        # That nobody has taken it from us says nothing while nobody could. And a KIP-848 member
        # that is out, and begins anew with no broker there, never joins again.
        if reclaimable and self._sees_brokers():
            self._flow_control.reclaim(reclaimable)

    def tick(self) -> None:
        """Ask about what is suspiciously silent; revive what the answers show to be dead."""
        # With a full queue a partition may be silent for minutes, its messages behind the others';
        # begun anew, it would go to the end of that queue, again and again.
        if self._assignment.undisturbed or not self._read_ahead.dry:
            return
        for partition in self._assignment.suspiciously_silent():
            if partition not in self._asked and not self._flow_control.is_paused(partition):
                epoch = self._assignment.epoch
                self._asked[partition] = epoch, self._ask_end(partition)
        answered = [key for key, (_, future) in self._asked.items() if future.done()]
        for partition in answered:
            self._evaluate(partition, *self._asked.pop(partition))

    def _evaluate(self, partition: Partition, epoch: int, answer: Future[int]) -> None:
        is_same = self._assignment.epoch == epoch and self._assignment.is_silent(partition)
        if not is_same or self._flow_control.is_paused(partition):
            return
        next_offset = self._offsets.next_offset(partition) or 0
        if answer.exception() is None and answer.result() > next_offset:
            self._flow_control.revive(partition, "it has messages, but delivered none")
        self._assignment.extend_timeout(partition)
