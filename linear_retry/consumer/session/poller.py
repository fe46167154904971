"""Polls the consumer, and has what arrives accepted."""

from __future__ import annotations

from collections.abc import Callable

from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.delivery_filter import DeliveryFilter
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.consumer.watchdogs.unreadable_batches import UnreadableBatchWatchdog
from linear_retry.kafka import Message
from linear_retry.retry.clock import Clock

_SEARCHING_S = 0.01


class Poller:
    """The loop's one way to poll; callbacks of a rebalance run inside."""

    def __init__(
        self,
        clock: Clock,
        assignment: Assignment,
        read_ahead: ReadAhead,
        flow_control: FlowControl,
        delivery_filter: DeliveryFilter,
        batches: UnreadableBatchWatchdog,
    ) -> None:
        self.clock = clock
        self._assignment = assignment
        self._read_ahead = read_ahead
        self._flow_control = flow_control
        self._delivery_filter = delivery_filter
        self._batches = batches

    @property
    def is_late(self) -> bool:
        """Whether it is time for a poll, whatever else is to be done."""
        return self.clock.now_s() >= self._read_ahead.deadline_s

    def poll(self, timeout_s: Callable[[], float]) -> None:
        """Wait for the first message at most so long, and take what is there behind it."""
        self._accept(lambda: self._read_ahead.read(self._bounded_s(timeout_s())))

    def touch(self) -> None:
        """Poll without waiting, so as to stay in the group."""
        self._accept(self._read_ahead.touch)

    def give_up_if_overran(self) -> None:
        """The partitions may be another member's if they were not polled for too long.

        librdkafka tells of that some polls later only, so what is held must not be attempted yet.
        """
        if self._read_ahead.overran(self.clock.now_s()):
            self._flow_control.mark_all_lost("no poll for too long")

    def _accept(self, read: Callable[[], list[Message]]) -> None:
        owned = self._assignment
        self.give_up_if_overran()
        if self._read_ahead.is_invalid:
            self._flow_control.reposition()
        epoch = owned.epoch
        arrivals = read()
        if self._read_ahead.overslept:
            before = [key for key in owned.partitions if (owned.epoch_of(key) or 0) <= epoch]
            self._flow_control.mark_lost(before, "the machine slept for too long")
        self._delivery_filter.accept(arrivals)

    def _bounded_s(self, timeout_s: float) -> float:
        return min(timeout_s, _SEARCHING_S) if self._batches.is_searching else timeout_s
