"""Stops a partition at an unreadable batch, and skips the batch at an operator's request."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from linear_retry.consumer.ownership.requests import Request, Requests, SkipUnreadable
from linear_retry.consumer.partitions.assignment import Assignment, Unreadable
from linear_retry.consumer.partitions.client_events import error_text
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.events import DataLost, Event, PartitionReadable, PartitionUnreadable
from linear_retry.kafka import KafkaError, KafkaException
from linear_retry.kafka.topics.batch_end import BatchEnd
from linear_retry.retry.clock import Clock
from linear_retry.scope import Partition

_SEARCH_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class _Search:
    """A search for the end of a batch that an operator wants skipped."""

    request: Request
    partition: Partition
    steps: Generator[None, None, int]
    give_up_at_s: float


class UnreadableBatches:
    """Stops a partition at an unreadable batch, while the others continue.

    Only an operator can skip the batch. It may be intact on another replica, which may become the
    leader: so it is read again after 5, 10, 30, 60, 60 ... s. `search` looks for the end of a
    batch, over several turns.
    """

    def __init__(
        self,
        clock: Clock,
        assignment: Assignment,
        flow_control: FlowControl,
        requests: Requests,
        batch_end: BatchEnd,
        emit: Callable[[Event], None],
    ) -> None:
        self._clock = clock
        self._assignment = assignment
        self._offsets = flow_control.offsets
        self._flow_control = flow_control
        self._requests = requests
        self._batch_end = batch_end
        self._emit = emit
        self.search: _Search | None = None

    def stop(self, partition: Partition, batch_offset: int, error: KafkaError) -> None:
        """Stops the partition before the unreadable batch at `batch_offset`.

        librdkafka's position is garbage after that, so whatever else it delivers does not count.
        Messages in memory are still handled.
        """
        if partition in self._assignment.stopped:
            return
        # Prefer the next offset; the batch may start before it.
        next_offset = self._flow_control.next_to_fetch(partition)
        offset = batch_offset if next_offset is None else next_offset
        unreadable = self._assignment.stop(partition, offset)
        self._assignment.expect(partition)
        self._flow_control.apply_pause_state([partition])
        if partition in self._assignment.unreadable:  # not if a refused pause marked it lost
            delay_s = unreadable.retry_at_s - self._clock.now_s()
            now = datetime.fromtimestamp(self._clock.utc_ms() / 1000, UTC)
            self._emit(
                PartitionUnreadable(
                    *partition,
                    offset,
                    error_text(error),
                    unreadable.tries,
                    delay_s,
                    now + timedelta(seconds=delay_s),
                )
            )

    def note_delivered(self, partition: Partition, offset: int) -> None:
        """Notes a delivery: the partition is readable again if it is past the unreadable offset."""
        unreadable = self._assignment.unreadable.get(partition)
        if unreadable is not None and offset >= unreadable.offset:
            self._note_readable(partition, offset, unreadable)

    def _is_next(self, partition: Partition, offset: int) -> bool:
        """Whether the partition is stopped at this offset, and everything before it is done."""
        unreadable = self._assignment.unreadable.get(partition)
        if unreadable is None or not unreadable.is_stopped or unreadable.offset != offset:
            return False
        return self._offsets.next_offset(partition) in (None, offset)

    def _skip(self, partition: Partition, offset: int, end: int) -> bool:
        """Skips from `offset` to `end`, which is lost. False: it is not stopped there."""
        unreadable = self._assignment.unreadable.get(partition)
        if unreadable is None or end <= offset or not self._is_next(partition, offset):
            return False
        if self._offsets.next_offset(partition) is None:
            self._offsets.start_at(partition, offset)
        self._offsets.done({partition: end})
        self._assignment.note_readable(partition)
        self._flow_control.reassign(partition)
        self._emit(DataLost(*partition, offset, end))
        self._note_readable(partition, end, unreadable)
        return True

    def _note_readable(self, partition: Partition, offset: int, unreadable: Unreadable) -> None:
        self._assignment.note_readable(partition)
        stopped_s = self._clock.now_s() - unreadable.since_s
        self._emit(PartitionReadable(*partition, offset, stopped_s))

    def reread(self) -> None:
        for partition in self._assignment.rereadable():
            # Not while it may be skipped; nor with messages in memory: they would come twice.
            is_searched = self.search is not None and self.search.partition == partition
            if not (is_searched or self._flow_control.has_in_memory(partition)):
                self._assignment.reread(partition)
                self._flow_control.reassign(partition)

    def consider_skips(self) -> None:
        for request in self._requests.pending():
            if isinstance(request.wish, SkipUnreadable):
                self._consider(request, *request.wish.target)

    def _consider(self, request: Request, partition: Partition, offset: int) -> None:
        unreadable, search = self._assignment.unreadable.get(partition), self.search
        if unreadable is None or unreadable.offset != offset:
            self._answer(request, False)
        elif search is not None and search.request is request:
            self._go_on(search, offset)
        elif search is None and self._is_next(partition, offset) and self._requests.claim(request):
            steps = self._batch_end.search(partition, offset)
            give_up_at_s = self._clock.now_s() + _SEARCH_WITHIN_S
            self.search = _Search(request, partition, steps, give_up_at_s)

    def _go_on(self, search: _Search, offset: int) -> None:
        try:
            next(search.steps)
        except StopIteration as found:
            skipped = self._skip(search.partition, offset, found.value)
            self._answer(search.request, skipped)
        except KafkaException:
            self._answer(search.request, False)
        else:
            if self._clock.now_s() >= search.give_up_at_s:
                self._answer(search.request, False)

    def _answer(self, request: Request, truth: bool) -> None:
        if self.search is not None and self.search.request is request:
            self.search.steps.close()
            self.search = None
        self._requests.answer(request, truth)
