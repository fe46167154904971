"""The read-ahead of retry topics: each message waits in memory until its delay is over."""

import math
from collections import deque
from collections.abc import Callable

from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.queued_read_ahead import HoldBack, Queue, QueuedReadAhead
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import timestamp_ms_of
from linear_retry.retry.clock import Clock
from linear_retry.scope import Partition


class DelayedQueue(Queue):
    """The messages of one partition that are not due yet, in their order, each with its time."""

    def __init__(self, delay_s: float, clock: Clock) -> None:
        super().__init__()
        self._delay_s = delay_s
        self._clock = clock
        self._due_at_s: deque[float] = deque()

    @property
    def due_at_s(self) -> float:
        """When the first is due; infinity without one."""
        return self._due_at_s[0] if self._due_at_s else math.inf

    def append(self, message: Message) -> None:
        """Adds the last message, and works out when it is due.

        Done when it comes to be the first, this would let a clock that is behind the broker's, by
        the delay or more, put the whole delay between any two messages.
        """
        self._due_at_s.append(self._due(message))
        super().append(message)

    def popleft(self) -> Message:
        self._due_at_s.popleft()
        return super().popleft()

    def _due(self, message: Message) -> float:
        """On the monotonic clock. Never later than the delay from now: it is written by now."""
        written_ms, now_ms = timestamp_ms_of(message), self._clock.utc_ms()
        waited_s = 0.0 if written_ms is None else max((now_ms - written_ms) / 1000, 0.0)
        return self._clock.now_s() + max(self._delay_s - waited_s, 0.0)


def delayed_queues(
    delay_ms: Callable[[str], int | None], clock: Clock
) -> Callable[[Partition], DelayedQueue]:
    """Makes the queues of a `DelayedReadAhead`.

    `delay_ms` gives the delay of a topic; None: its messages do not wait.
    """
    return lambda partition: DelayedQueue((delay_ms(partition[0]) or 0) / 1000, clock)


class DelayedReadAhead(QueuedReadAhead[DelayedQueue]):
    """A read-ahead whose messages wait for their topic's delay, each partition by itself.

    Due is the time at which the broker wrote the record (`LogAppendTime`) plus the delay. The wait
    that is left is worked out once, when a message arrives, and is then measured on the monotonic
    clock: a step of the wall clock changes nothing.
    """

    @property
    def next_due_at_s(self) -> float:
        """When the first of all is due; infinity where none waits. For any thread."""
        return min((queue.due_at_s for queue in list(self._queues.values())), default=math.inf)

    @property
    def waiting_messages(self) -> int:
        """How many messages are not due. For any thread: the values are copied in one step."""
        return sum(map(len, list(self._queues.values())))

    def release(self) -> None:
        """Moves what is due to `messages`, the earliest first."""
        now_s = self._clock.now_s()
        for partition, queue in sorted(self._queues.items(), key=lambda item: item[1].due_at_s):
            while queue.due_at_s <= now_s:
                self.messages.append(queue.popleft())
            self._discard_if_empty(partition)


class DelayedFlow(HoldBack):
    """Releases what is due, and holds back a partition of which enough is in memory."""

    def __init__(self, read_ahead: DelayedReadAhead, flow_control: FlowControl) -> None:
        super().__init__(read_ahead, flow_control)
        self._delayed = read_ahead

    @property
    def due_at_s(self) -> float:
        return min(super().due_at_s, self._delayed.next_due_at_s)

    def tick(self) -> None:
        """Once a turn, after the poll."""
        self._delayed.release()
        super().tick()
