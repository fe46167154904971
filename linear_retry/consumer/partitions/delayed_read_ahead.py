"""The read-ahead of retry topics: each message waits in memory until its delay is over."""

import math
from collections import deque
from collections.abc import Callable, Collection

from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.read_ahead import ReadAhead, offset_of, partition_of
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.consumer.messages import timestamp_ms_of
from linear_retry.retry.clock import Clock
from linear_retry.scope import Partition

MOST_MESSAGES = 500
MOST_BYTES = 4_000_000
"""Of each partition, in memory: then it is paused, and resumed when half of that is handed over."""


_HEADERS_BYTES = 4096  # about: to count them would be to read them


class _Queue:
    """The messages of one partition that are not due yet, in their order."""

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s
        self.due_at_s = math.inf
        self._messages: deque[Message] = deque()
        self._size_bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def last(self) -> Message:
        return self._messages[-1]

    def append(self, message: Message, clock: Clock) -> None:
        self._messages.append(message)
        self._size_bytes += _size_bytes(message)
        if len(self) == 1:
            self._note_due(clock)

    def popleft(self, clock: Clock) -> Message:
        message = self._messages.popleft()
        self._size_bytes -= _size_bytes(message)
        self._note_due(clock)
        return message

    def drop_through(self, offset: int, clock: Clock) -> None:
        while self._messages and offset_of(self._messages[0]) <= offset:
            self.popleft(clock)

    def is_above(self, share: float) -> bool:
        """Whether it holds more than this share of what it may hold."""
        return len(self) > share * MOST_MESSAGES or self._size_bytes > share * MOST_BYTES

    def _note_due(self, clock: Clock) -> None:
        """The first message's wait, measured from now on the monotonic clock.

        Never longer than the delay: what is written by now is due after that, whatever the broker's
        clock says.
        """
        if not self._messages:
            self.due_at_s = math.inf
            return
        written_ms, now_ms = timestamp_ms_of(self._messages[0]), clock.utc_ms()
        waited_s = 0.0 if written_ms is None else max((now_ms - written_ms) / 1000, 0.0)
        self.due_at_s = clock.now_s() + max(self.delay_s - waited_s, 0.0)


class DelayedReadAhead(ReadAhead):
    """A read-ahead whose messages wait for their topic's delay, each partition by itself.

    Due is the time at which the broker wrote the record (`LogAppendTime`) plus the delay. The wait
    that is left is worked out once, when a message comes to be the first of its partition, and is
    then measured on the monotonic clock: a step of the wall clock changes nothing.
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
        """When the first of all is due; infinity where none waits."""
        return min((queue.due_at_s for queue in self._queues.values()), default=math.inf)

    def is_above(self, partition: Partition, share: float) -> bool:
        """Whether it holds more than this share of what may be held of a partition."""
        queue = self._queues.get(partition)
        return queue is not None and queue.is_above(share)

    @property
    def waiting(self) -> Collection[Partition]:
        """The partitions with messages that are not due."""
        return self._queues.keys()

    def release(self) -> None:
        """Moves what is due to `messages`, the earliest first."""
        now_s, clock = self._clock.now_s(), self._clock
        for partition, queue in sorted(self._queues.items(), key=lambda item: item[1].due_at_s):
            while queue.due_at_s <= now_s:
                self.messages.append(queue.popleft(clock))
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

    def last_queued(self, partition: Partition) -> int | None:
        queue = self._queues.get(partition)
        return None if queue is None else offset_of(queue.last)

    def last_of(self, partition: Partition) -> int | None:
        queued = self.last_queued(partition)
        return super().last_of(partition) if queued is None else queued

    def drop(self, covers: Callable[[Partition], bool]) -> None:
        super().drop(covers)
        self._queues = {key: queue for key, queue in self._queues.items() if not covers(key)}

    def drop_through(self, partition: Partition, offset: int) -> None:
        super().drop_through(partition, offset)
        queue = self._queues.get(partition)
        if queue is not None:
            queue.drop_through(offset, self._clock)
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
        self._held_back: set[Partition] = set()

    @property
    def due_at_s(self) -> float:
        return -math.inf if self._full() or self._roomy() else self._read_ahead.next_due_at_s

    def tick(self) -> None:
        """Once a turn, after the poll."""
        self._read_ahead.release()
        for partition in self._full():
            self._flow_control.hold_back(partition)
            self._held_back.add(partition)
        for partition in self._roomy():
            self._held_back.discard(partition)
            self._flow_control.let_go(partition)

    def _full(self) -> list[Partition]:
        waiting = self._read_ahead.waiting
        return [
            key
            for key in waiting
            if key not in self._held_back and self._read_ahead.is_above(key, 1.0)
        ]

    def _roomy(self) -> list[Partition]:
        return [key for key in self._held_back if not self._read_ahead.is_above(key, 0.5)]


def _size_bytes(message: Message) -> int:
    return len(message.value() or b"") + len(message.key() or b"") + _HEADERS_BYTES
