"""A read-ahead with a queue for each partition, and the pause of those whose queue is long."""

import math
from collections import deque
from collections.abc import Callable, Collection
from itertools import islice
from typing import Generic, Protocol, TypeVar

from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.consumer.messages import offset_of, partition_of, size_bytes
from linear_retry.retry.clock import Clock
from linear_retry.scope import Partition

MOST_MESSAGES = 2000
"""Of each partition, in memory: then it is paused, and resumed when half of that is handed over."""
MOST_BYTES = 64_000_000
"""Of all partitions together, each of which has an equal share."""


def is_above(
    share: float,
    messages: int,
    size_bytes: int,
    partitions: int,
    most: int = 0,
    most_bytes: int | None = None,
) -> bool:
    """Whether this is more than that share of what may be held of one of so many partitions.

    `most` messages may be held of all together, but at least `MOST_MESSAGES` of each, and
    `most_bytes`, or `MOST_BYTES`.
    """
    most_of_one = max(MOST_MESSAGES, most / partitions)
    bytes_of_one = (MOST_BYTES if most_bytes is None else most_bytes) / partitions
    return messages > share * most_of_one or size_bytes > share * bytes_of_one


class Queue:
    """The messages of one partition, in their order."""

    def __init__(self) -> None:
        self._messages: deque[tuple[Message, int]] = deque()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def last(self) -> Message:
        return self._messages[-1][0]

    def first(self, most: int) -> list[Message]:
        """Returns the first messages, which stay."""
        return [message for message, _ in islice(self._messages, most)]

    def append(self, message: Message) -> None:
        size = size_bytes(message)
        self._messages.append((message, size))
        self.size_bytes += size

    def popleft(self) -> Message:
        message, size = self._messages.popleft()
        self.size_bytes -= size
        return message

    def drop_through(self, offset: int) -> None:
        while self._messages and offset_of(self._messages[0][0]) <= offset:
            self.popleft()


Q = TypeVar("Q", bound=Queue)


class QueuedReadAhead(ReadAhead, Generic[Q]):
    """A read-ahead whose messages wait in memory, those of each partition in a queue of its own.

    A seek goes behind what waits.
    """

    def __init__(
        self,
        new_queue: Callable[[Partition], Q],
        client: Client,
        clock: Clock,
        epoch: Callable[[], int],
        *,
        max_poll_interval_s: float,
        session_timeout_s: float,
    ) -> None:
        super().__init__(
            client,
            clock,
            epoch,
            max_poll_interval_s=max_poll_interval_s,
            session_timeout_s=session_timeout_s,
        )
        self._new_queue = new_queue
        self._queues: dict[Partition, Q] = {}

    @property
    def waiting(self) -> Collection[Partition]:
        """The partitions with messages in a queue."""
        return self._queues.keys()

    def is_above(self, partition: Partition, share: float) -> bool:
        """Whether it holds more than this share of what may be held of a partition."""
        queue, partitions = self._queues.get(partition), len(self._queues)
        return queue is not None and is_above(share, len(queue), queue.size_bytes, partitions)

    # -- as any read-ahead -----------------------------------------------------------------

    def keep(self, messages: list[Message]) -> None:
        for message in messages:
            partition = partition_of(message)
            queue = self._queues.get(partition)
            if queue is None:
                queue = self._queues[partition] = self._new_queue(partition)
            queue.append(message)

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
            self._discard_if_empty(partition)

    def invalidate(self) -> None:
        super().invalidate()
        self._queues = {}

    def _discard_if_empty(self, partition: Partition) -> None:
        if not self._queues[partition]:
            del self._queues[partition]


class HoldsMuch(Protocol):
    """A read-ahead that may hold too much of a partition."""

    @property
    def waiting(self) -> Collection[Partition]: ...

    def is_above(self, partition: Partition, share: float) -> bool: ...


class HoldBack:
    """Pauses a partition of which enough is in memory, and resumes it when half of that is left.

    Only memory depends on that pause: what is delivered all the same is next in its order, and
    joins the queue. `due_at_s` is when there is something to do.
    """

    def __init__(self, read_ahead: HoldsMuch, flow_control: FlowControl) -> None:
        self._read_ahead = read_ahead
        self._flow_control = flow_control

    @property
    def due_at_s(self) -> float:
        return -math.inf if self._full() or self._roomy() else math.inf

    def tick(self) -> None:
        """Once a turn, after the poll."""
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
