"""Stops a partition at a batch that cannot be read, and steps over it where an operator says so."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from linear_retry.consumer.operations.requests import Request, Requests, SkipUnreadable
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.unreadable import Unread
from linear_retry.consumer.state import Parts
from linear_retry.events import DataLost, PartitionReadable, PartitionUnreadable
from linear_retry.kafka import KafkaError, KafkaException
from linear_retry.scope import Partition

_SEARCH_WITHIN_S = 30.0


class Finder(Protocol):
    """Finds where a batch ends (`BatchEnd`)."""

    def search(self, partition: Partition, offset: int) -> Generator[None, None, int]: ...


@dataclass(frozen=True, slots=True)
class _Search:
    """For the end of the batch that an operator wants stepped over."""

    request: Request
    partition: Partition
    steps: Generator[None, None, int]
    give_up_at_s: float


class UnreadableBatches:
    """The other partitions go on. Nothing is passed over unless an operator says so.

    What cannot be read here may be sound on another replica, which may be the leader one day: so
    it is read again after 5, 10, 30, 60, 60 ... s.
    """

    def __init__(
        self, parts: Parts, flow_control: FlowControl, requests: Requests, finder: Finder
    ) -> None:
        self._parts = parts
        self._flow_control = flow_control
        self._requests = requests
        self._finder = finder
        self._search: _Search | None = None

    def meet(self, partition: Partition, batch_offset: int, error: KafkaError) -> None:
        """What comes next in this partition, in the batch that begins there, cannot be read.

        Where librdkafka stands after that is garbage: whatever else it delivers does not count.
        What is in memory already is still handled.
        """
        parts = self._parts
        if parts.unreadable.stops(partition):
            return
        offset = self._following(partition, batch_offset)
        delay_s = parts.unreadable.stop(partition, offset, parts.clock.now_s())
        parts.assignment.expect(partition, parts.clock.now_s())
        self._flow_control.apply_pause_state([partition])
        unread = parts.unreadable.get(partition)
        if unread is not None:
            now = datetime.fromtimestamp(parts.clock.utc_ms() / 1000, UTC)
            text, retry_at = f"{error.name()}: {error.str()}", now + timedelta(seconds=delay_s)
            parts.emit(
                PartitionUnreadable(*partition, offset, text, unread.tries, delay_s, retry_at)
            )

    def heard(self, partition: Partition, offset: int) -> None:
        """It has delivered this offset: it can be read if that is the one it had stopped at."""
        unread = self._parts.unreadable.get(partition)
        if unread is not None and offset >= unread.offset:
            self._parts.unreadable.forget([partition])
            self._say_readable(partition, offset, unread)

    def tick(self) -> None:
        """Once a turn: what is due is read once more, and what was asked for is done."""
        parts = self._parts
        for partition in parts.unreadable.due(parts.clock.now_s()):
            if self._may_be_read_again(partition):
                parts.unreadable.read_again(partition)
                self._flow_control.reassign(partition)
        for request in self._requests.tick():
            if isinstance(request.wish, SkipUnreadable):
                self._consider(request, *request.wish.target)

    def _may_be_read_again(self, partition: Partition) -> bool:
        """Not while it is about to be stepped over, nor while something before it is in memory.

        That would be fetched a second time.
        """
        is_searched = self._search is not None and self._search.partition == partition
        waits = is_searched or self._parts.circuits.stops(partition)
        return not waits and self._parts.read_ahead.last_of(partition) is None

    # -- stepping over it ------------------------------------------------------------------

    def _consider(self, request: Request, partition: Partition, offset: int) -> None:
        unread = self._parts.unreadable.get(partition)
        is_searched_for = self._search is not None and self._search.request is request
        if unread is None or unread.offset != offset:
            self._tell(request, False)
        elif is_searched_for:
            self._go_on_searching()
        elif self._search is None and self._is_next(partition) and self._requests.claim(request):
            steps = self._finder.search(partition, offset)
            give_up_at_s = self._parts.clock.now_s() + _SEARCH_WITHIN_S
            self._search = _Search(request, partition, steps, give_up_at_s)
            self._parts.unreadable.is_searching = True

    def _is_next(self, partition: Partition) -> bool:
        """Whether it stands still, and all before that is done."""
        unread = self._parts.unreadable.get(partition)
        if unread is None or not unread.is_stopped:
            return False
        return self._parts.offsets.next_offset(partition) in (None, unread.offset)

    def _go_on_searching(self) -> None:
        search = self._search
        if search is None:
            return
        try:
            next(search.steps)
        except StopIteration as found:
            self._tell(search.request, self._skip(search.partition, found.value))
        except KafkaException:
            self._tell(search.request, False)
        else:
            if self._parts.clock.now_s() >= search.give_up_at_s:
                self._tell(search.request, False)

    def _skip(self, partition: Partition, end: int) -> bool:
        """Whether it goes on there now."""
        parts, unread = self._parts, self._parts.unreadable.get(partition)
        if unread is None or end <= unread.offset or not self._is_next(partition):
            return False
        if parts.offsets.next_offset(partition) is None:
            parts.offsets.start_at(partition, unread.offset)
        parts.offsets.done({partition: end})
        parts.unreadable.forget([partition])
        self._flow_control.reassign(partition)
        parts.emit(DataLost(*partition, unread.offset, end))
        self._say_readable(partition, end, unread)
        return True

    def _tell(self, request: Request, truth: bool) -> None:
        if self._search is not None and self._search.request is request:
            self._search.steps.close()
            self._search = None
            self._parts.unreadable.is_searching = False
        self._requests.tell(request, truth)

    # -- inside ----------------------------------------------------------------------------

    def _say_readable(self, partition: Partition, offset: int, unread: Unread) -> None:
        stopped_s = self._parts.clock.now_s() - unread.since_s
        self._parts.emit(PartitionReadable(*partition, offset, stopped_s))

    def _following(self, partition: Partition, batch_offset: int) -> int:
        """What comes next. Where that is not known, the batch tells; it may begin before that."""
        parts = self._parts
        last = parts.read_ahead.last_of(partition)
        start = parts.offsets.starts()[partition] if last is None else last + 1
        if start is None:
            start = self._committed(partition)
        return batch_offset if start is None else start

    def _committed(self, partition: Partition) -> int | None:
        try:
            return self._parts.client.committed(partition)
        except KafkaException:
            return None  # only told: it is read again from what is committed all the same
