"""The read-ahead of retry topics: each message waits in memory until its delay is over."""

import math
from collections import deque
from collections.abc import Callable, Collection

from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.read_ahead import ReadAhead, offset_of, partition_of
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.consumer.messages import size_bytes, timestamp_ms_of
from linear_retry.retry.clock import Clock
from linear_retry.scope import Partition

MOST_MESSAGES = 2000
"""Of each partition, in memory: then it is paused, and resumed when half of that is handed over."""
MOST_BYTES = 64_000_000
"""Of all partitions together, each of which has an equal share."""


class _Queue:
    """The messages of one partition that are not due yet, in their order, each with its time."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._messages: deque[tuple[Message, float, int]] = deque()
        self._size_bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def last(self) -> Message:
        return self._messages[-1][0]

    @property
    def due_at_s(self) -> float:
        """When the first is due; infinity without one."""
        return self._messages[0][1] if self._messages else math.inf

    def append(self, message: Message, clock: Clock) -> None:
        size = size_bytes(message)
        self._messages.append((message, self._due_at_s(message, clock), size))
        self._size_bytes += size

    def popleft(self) -> Message:
        message, _, size = self._messages.popleft()
        self._size_bytes -= size
        return message

    def drop_through(self, offset: int) -> None:
        while self._messages and offset_of(self._messages[0][0]) <= offset:
            self.popleft()

    def is_above(self, messages: float, most_bytes: float) -> bool:
        return len(self) > messages or self._size_bytes > most_bytes

    def _due_at_s(self, message: Message, clock: Clock) -> float:
        """On the monotonic clock. Never later than the delay from now: it is written by now.

        To be called when the message arrives. Called when it comes to be the first, it would let a
        clock that is behind the broker's, by the delay or more, put the whole delay between any two
        messages.
        """
        written_ms, now_ms = timestamp_ms_of(message), clock.utc_ms()
        waited_s = 0.0 if written_ms is None else max((now_ms - written_ms) / 1000, 0.0)
        return clock.now_s() + max(self._delay_s - waited_s, 0.0)


class DelayedReadAhead(ReadAhead):
    """A read-ahead whose messages wait for their topic's delay, each partition by itself.

    Due is the time at which the broker wrote the record (`LogAppendTime`) plus the delay. The wait
    that is left is worked out once, when a message arrives, and is then measured on the monotonic
    clock: a step of the wall clock changes nothing.
    """

    def __init__(
        self,
        delay_ms: Callable[[str], int | None],
        client: Client,
        clock: Clock,
        epoch: Callable[[], int],
        *,
        max_poll_interval_s: float,
        session_timeout_s: float,
    ) -> None:
        """`delay_ms` gives the delay of a topic; None: its messages do not wait."""
        super().__init__(
            client,
            clock,
            epoch,
            max_poll_interval_s=max_poll_interval_s,
            session_timeout_s=session_timeout_s,
        )
        self._delay_ms = delay_ms
        self._queues: dict[Partition, _Queue] = {}

    @property
    def next_due_at_s(self) -> float:
        """When the first of all is due; infinity where none waits. For any thread."""
        return min((queue.due_at_s for queue in list(self._queues.values())), default=math.inf)

    def is_above(self, partition: Partition, share: float) -> bool:
        """Whether it holds more than this share of what may be held of a partition."""
        queue = self._queues.get(partition)
        bytes_each = MOST_BYTES / max(len(self._queues), 1)
        return queue is not None and queue.is_above(share * MOST_MESSAGES, share * bytes_each)

    @property
    def waiting_messages(self) -> int:
        """How many messages are not due. For any thread: the values are copied in one step."""
        return sum(map(len, list(self._queues.values())))

    @property
    def waiting(self) -> Collection[Partition]:
        """The partitions with messages that are not due."""
        return self._queues.keys()

    def release(self) -> None:
        """Moves what is due to `messages`, the earliest first."""
        now_s = self._clock.now_s()
        for partition, queue in sorted(self._queues.items(), key=lambda item: item[1].due_at_s):
            while queue.due_at_s <= now_s:
                self.messages.append(queue.popleft())
            if not queue:
                del self._queues[partition]

    # -- as any read-ahead -----------------------------------------------------------------

    def keep(self, messages: list[Message]) -> None:
        for message in messages:
            partition = partition_of(message)
            queue = self._queues.get(partition)
            if queue is None:
                delay_ms = self._delay_ms(partition[0]) or 0
                queue = self._queues[partition] = _Queue(delay_ms / 1000)
            queue.append(message, self._clock)

    def last_kept(self, partition: Partition) -> int | None:
        queue = self._queues.get(partition)
        if queue is not None:
            return offset_of(queue.last)
        due = [offset_of(each) for each in self.messages if partition_of(each) == partition]
        return max(due, default=None)

    def last_of(self, partition: Partition) -> int | None:
        queue = self._queues.get(partition)
        return super().last_of(partition) if queue is None else offset_of(queue.last)

    def drop(self, covers: Callable[[Partition], bool]) -> None:
        super().drop(covers)
        self._queues = {key: queue for key, queue in self._queues.items() if not covers(key)}

    def drop_through(self, partition: Partition, offset: int) -> None:
        super().drop_through(partition, offset)
        queue = self._queues.get(partition)
        if queue is not None:
            queue.drop_through(offset)
            if not queue:
                del self._queues[partition]

    def invalidate(self) -> None:
        super().invalidate()
        self._queues = {}


class DelayedFlow:
    """Releases what is due, and pauses a partition of which enough is in memory.

    Only memory depends on that pause: what is delivered all the same is next in its order, and
    joins the queue. `due_at_s` is when there is something to do.
    """

    def __init__(self, read_ahead: DelayedReadAhead, flow_control: FlowControl) -> None:
        self._read_ahead = read_ahead
        self._flow_control = flow_control

    @property
    def due_at_s(self) -> float:
        return -math.inf if self._full() or self._roomy() else self._read_ahead.next_due_at_s

    def tick(self) -> None:
        """Once a turn, after the poll."""
        self._read_ahead.release()
        for partition in self._full():
            self._flow_control.hold_back(partition)
        for partition in self._roomy():
            self._flow_control.let_go(partition)

    def _full(self) -> list[Partition]:
        held_back = self._flow_control.held_back
        waiting = [key for key in self._read_ahead.waiting if key not in held_back]
        return [key for key in waiting if self._read_ahead.is_above(key, 1.0)]

    def _roomy(self) -> list[Partition]:
        held_back = self._flow_control.held_back
        return [key for key in held_back if not self._read_ahead.is_above(key, 0.5)]
