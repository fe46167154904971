"""Notices that the user's code took longer than the group allows."""

from collections.abc import Callable, Iterable

from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.consumer.runners.run_handler import Batch
from linear_retry.errors import HandlerTooSlowError
from linear_retry.events import Event, HandlerTooSlow
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import place_of
from linear_retry.retry.clock import NowS
from linear_retry.scope import Partition

HOPELESS_AFTER = 3
_LOOKS_AFTER_S = 0.1
_LOOKS_EVERY_S = 2.0
"""At most: the loop of workers comes by once a second, if nothing else wakes it."""


class OverrunWatchdog:
    """Gives up all partitions if no poll came in time: they may be another member's."""

    def __init__(
        self, read_ahead: ReadAhead, flow_control: FlowControl, emit: Callable[[Event], None]
    ) -> None:
        self._read_ahead = read_ahead
        self._flow_control = flow_control
        self._emit = emit
        self._slow_handlers = SlowHandlerCount()

    def note(self, now_s: float, message: Message, what: str) -> None:
        """Notes that the group has removed us while the user's code, `what`, had this message.

        Raises `HandlerTooSlowError` at its third time in a row.
        """
        polled_at_s, overruns_at_s = self._read_ahead.polled_at_s, self._read_ahead.overruns_at_s
        took_s, limit_s = now_s - polled_at_s, overruns_at_s - polled_at_s
        self._flow_control.mark_all_lost("no poll for too long")
        topic, partition, offset = place_of(message)
        count = self._slow_handlers.count((topic, partition), offset)
        slow = HandlerTooSlow(topic, partition, offset, took_s, limit_s, count, what)
        self._emit(slow)
        raise_if_fatal(slow)


class HangingHandlers:
    """Notices the workers' handlers that run for longer than the group allows, as polls go on."""

    def __init__(
        self,
        flow_control: FlowControl,
        now_s: NowS,
        emit: Callable[[Event], None],
        *,
        limit_s: float,
        workers: int,
    ) -> None:
        """`limit_s` is `max.poll.interval.ms`.

        Time in which nobody looks does not count: the machine may have slept.
        """
        self._flow_control = flow_control
        self._now_s = now_s
        self._emit = emit
        self._limit_s = limit_s
        self._workers = workers
        self._running_s: dict[Batch, float] = {}
        self._looked_at_s = now_s()

    def check(self, running: Iterable[Batch]) -> None:
        """Emits `HandlerTooSlow` once for each batch of these that has run for too long.

        Gives up all partitions and raises `HandlerTooSlowError` where half of the workers hang, or
        one does for three times as long.
        """
        now_s = self._now_s()
        if now_s - self._looked_at_s < _LOOKS_AFTER_S:
            return  # with 256 handlers a look at each turn would cost more than all else
        passed_s = min(now_s - self._looked_at_s, _LOOKS_EVERY_S)
        before, self._looked_at_s = self._running_s, now_s
        self._running_s = {batch: before.get(batch, -passed_s) + passed_s for batch in running}
        hanging = [batch for batch, took_s in self._running_s.items() if took_s > self._limit_s]
        for batch in hanging:
            if before[batch] <= self._limit_s:
                place, took_s = place_of(batch.in_hand), self._running_s[batch]
                self._emit(HandlerTooSlow(*place, took_s, self._limit_s, 1, "worker's handler"))
        if not hanging:
            return
        longest = max(hanging, key=self._running_s.__getitem__)
        longest_s = self._running_s[longest]
        if 2 * len(hanging) >= self._workers or longest_s > HOPELESS_AFTER * self._limit_s:
            self._flow_control.mark_all_lost("handlers hang")
            raise self._hopeless(longest_s, longest, len(hanging))

    def _hopeless(self, longest_s: float, batch: Batch, count: int) -> HandlerTooSlowError:
        topic, partition, offset = place = place_of(batch.in_hand)
        return HandlerTooSlowError(
            f"{place}: the handler has run for {longest_s:.1f} s, and max.poll.interval.ms allows "
            f"{self._limit_s:g} s; {count} of {self._workers} workers hang; make the handler "
            "faster, let it time out, or raise max.poll.interval.ms",
            topic=topic,
            partition=partition,
            offset=offset,
            failures=0,
        )


class SlowHandlerCount:
    """Counts how many times in a row the handler was too slow at one offset of a partition.

    Survives a loss: else a handler that is always too slow would loop for ever: lost, assigned
    again, attempted again, lost.
    """

    def __init__(self) -> None:
        self._seen: dict[Partition, tuple[int, int]] = {}

    def count(self, partition: Partition, offset: int) -> int:
        """Counts an overrun, and returns how many in a row this offset has had."""
        before, count = self._seen.get(partition, (offset, 0))
        count = count + 1 if before == offset else 1
        self._seen[partition] = offset, count
        return count


def raise_if_fatal(slow: HandlerTooSlow) -> None:
    """Raises `HandlerTooSlowError` at the third overrun in a row."""
    if slow.attempts < HOPELESS_AFTER:
        return
    raise HandlerTooSlowError(
        f"{slow.place}: the {slow.what} took {slow.elapsed_s:.1f} s, and "
        f"max.poll.interval.ms allows {slow.max_poll_interval_s:g} s; that was the third time in a "
        f"row; make the {slow.what} faster or raise max.poll.interval.ms",
        topic=slow.topic,
        partition=slow.partition,
        offset=slow.offset,
        failures=0,
    )
