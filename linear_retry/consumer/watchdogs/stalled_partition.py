"""Does a partition that says nothing have something to say?"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Protocol

from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.state import Parts
from linear_retry.scope import Partition


class Ends(Protocol):
    """Asks the broker for the end of a partition, for our isolation level, without waiting."""

    def ask_end(self, partition: Partition) -> Future[int]: ...


class StalledPartitionWatchdog:
    """The watchdog for partitions that librdkafka has left dead: no error, nothing delivered.

    A partition that is at its end says so (`enable.partition.eof`), so silence is suspicious; the
    broker's answer tells it from a broker that is down or an empty log. The cached watermarks
    would not do: they are stale on a dead partition.
    """

    def __init__(self, parts: Parts, flow_control: FlowControl, ends: Ends) -> None:
        self._parts = parts
        self._flow_control = flow_control
        self._ends = ends
        self._asked: dict[Partition, tuple[int, Future[int]]] = {}

    def tick(self) -> None:
        """Ask about what is suspiciously silent; revive what the answers show to be dead.

        With a full queue a partition may be silent for minutes, its messages behind the others';
        begun anew, it would go to the end of that queue, again and again.
        """
        parts = self._parts
        if not parts.read_ahead.dry or parts.assignment.undisturbed:
            return
        now_s = parts.clock.now_s()
        for partition in parts.assignment.suspiciously_silent(now_s):
            if partition not in self._asked and not self._flow_control.is_paused(partition):
                epoch = parts.assignment.epoch
                self._asked[partition] = epoch, self._ends.ask_end(partition)
        answered = [key for key, (_, future) in self._asked.items() if future.done()]
        for partition in answered:
            self._judge(partition, *self._asked.pop(partition))

    def _judge(self, partition: Partition, epoch: int, answer: Future[int]) -> None:
        parts = self._parts
        silent = partition in parts.assignment and parts.assignment.is_silent(partition)
        if not silent or parts.assignment.epoch != epoch or self._flow_control.is_paused(partition):
            return
        if answer.exception() is None and answer.result() > (
            parts.offsets.next_offset(partition) or 0
        ):
            self._flow_control.revive(partition, "it has messages, and delivered none")
        parts.assignment.extend_timeout(partition, parts.clock.now_s())
