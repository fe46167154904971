"""Notices that the user's code took longer than the group allows."""

from collections.abc import Callable

from linear_retry.consumer.operations.watchdogs.slow_handler import SlowHandlerCount, raise_if_fatal
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.events import Event, HandlerTooSlow
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import place_of
from linear_retry.retry.clock import NowS


class OverrunWatchdog:
    """Gives up all partitions if no poll came in time: they may be another member's."""

    def __init__(
        self,
        now_s: NowS,
        read_ahead: ReadAhead,
        flow_control: FlowControl,
        emit: Callable[[Event], None],
    ) -> None:
        self._now_s = now_s
        self._read_ahead = read_ahead
        self._flow_control = flow_control
        self._emit = emit
        self._slow_handlers = SlowHandlerCount()

    def overran(self, message: Message, what: str = "handler") -> bool:
        """Whether the group has removed us while the user's code, `what`, had this message.

        Raises `HandlerTooSlowError` at its third time in a row.
        """
        now_s = self._now_s()
        if now_s <= self._read_ahead.doubtful_at_s or not self._read_ahead.overran(now_s):
            return False
        polled_at_s, overruns_at_s = self._read_ahead.polled_at_s, self._read_ahead.overruns_at_s
        took_s, limit_s = now_s - polled_at_s, overruns_at_s - polled_at_s
        self._flow_control.mark_all_lost("no poll for too long")
        topic, partition, offset = place_of(message)
        count = self._slow_handlers.count((topic, partition), offset)
        slow = HandlerTooSlow(topic, partition, offset, took_s, limit_s, count, what)
        self._emit(slow)
        raise_if_fatal(slow)
        return True
