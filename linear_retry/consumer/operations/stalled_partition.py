"""Says which member waits for its group, and reassigns partitions that deliver nothing."""

from collections.abc import Callable
from concurrent.futures import Future

from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.retry.clock import NowS
from linear_retry.scope import Partition

_EVERY_S = 10.0


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
        self._asked: dict[Partition, tuple[int, Future[int]]] = {}

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
        for partition in self._assignment.suspiciously_silent():
            if partition not in self._asked and not self._flow_control.is_not_read(partition):
                self._asked[partition] = self._assignment.epoch, self._ask_end(partition)
        for partition, (epoch, answer) in tuple(self._asked.items()):
            if answer.done():
                del self._asked[partition]
                self._evaluate(partition, epoch, answer)

    def _evaluate(self, partition: Partition, epoch: int, answer: Future[int]) -> None:
        is_same = self._assignment.epoch == epoch and self._assignment.is_silent(partition)
        if not is_same or self._flow_control.is_not_read(partition):
            return
        next_offset = self._offsets.next_offset(partition) or 0
        if answer.exception() is None and answer.result() > next_offset:
            self._flow_control.revive(partition, "it has messages, but delivered none")
        self._assignment.extend_timeout(partition)


class JoiningWatchdog:
    """Calls `say` with the seconds waited, every 10 s that the member is not in its group."""

    def __init__(
        self, now_s: NowS, has_joined: Callable[[], bool], say: Callable[[float], object]
    ) -> None:
        self._now_s = now_s
        self._has_joined = has_joined
        self._say = say
        self._since_s = now_s()
        self.due_at_s = self._since_s + _EVERY_S

    def tick(self) -> None:
        """Looks whether it is in its group."""
        now_s = self._now_s()
        self.due_at_s = now_s + _EVERY_S
        if self._has_joined():
            self._since_s = now_s
        else:
            self._say(now_s - self._since_s)
