"""Notices that the user's code took longer than the group allows."""

from collections.abc import Callable

from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.errors import HandlerTooSlowError
from linear_retry.events import Event, HandlerTooSlow
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import place_of
from linear_retry.scope import Partition

HOPELESS_AFTER = 3


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
