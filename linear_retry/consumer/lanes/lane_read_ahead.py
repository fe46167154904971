"""The read-ahead of partitions that are handled side by side: a queue for each."""

from collections.abc import Callable, Sequence

from linear_retry.consumer.partitions.queued_read_ahead import Queue, QueuedReadAhead
from linear_retry.consumer.partitions.read_ahead import LARGEST_BATCH, partition_of
from linear_retry.kafka import Message
from linear_retry.scope import Partition


class Lane(Queue):
    """The messages of one partition; `in_hand` of them, the first, are with a worker."""

    def __init__(self) -> None:
        super().__init__()
        self.in_hand = 0

    def keep_in_hand(self) -> None:
        """Drops what no worker has."""
        while len(self) > self.in_hand:
            self.pop()


class LaneReadAhead(QueuedReadAhead[Lane]):
    """A read-ahead from which each partition's messages are handed over by themselves.

    What a worker has of a partition stays in its queue, at the front, until it is back: whatever is
    dropped meanwhile is read again from behind that. `is_busy`: a worker has something, so that a
    poll must not wait.
    """

    is_busy = False

    def ready(self) -> list[Partition]:
        """Returns the partitions with messages that no worker has; the longest idle first."""
        return [key for key, lane in self._queues.items() if not lane.in_hand]

    def first(self, partition: Partition, most: int) -> list[Message]:
        """Returns the first messages of a partition, which stay."""
        lane = self._queues.get(partition)
        return [] if lane is None else lane.first(most)

    def hand_over(self, partition: Partition, count: int) -> None:
        """Notes that a worker has the first `count` messages of a partition.

        The partition is then the last to get a turn, or those before it would starve the others.
        """
        lane = self._queues.pop(partition)
        lane.in_hand = count
        self._queues[partition] = lane

    def give_back(self, partition: Partition) -> None:
        """Notes that no worker has messages of this partition; those that were not taken stay."""
        lane = self._queues.get(partition)
        if lane is not None:
            lane.in_hand = 0

    def take_out(self, messages: Sequence[Message]) -> None:
        """Takes out the first messages of a partition; nothing where they were dropped."""
        if not messages:
            return
        partition = partition_of(messages[0])
        lane = self._queues.get(partition)
        if lane is not None:
            for _ in messages:
                lane.popleft()
            self._discard_if_empty(partition)

    # -- as any read-ahead -----------------------------------------------------------------

    def read(self, timeout_s: float) -> list[Message]:
        if self.is_busy or self._queues:
            return self._polled(lambda: self._consume(LARGEST_BATCH))
        return self._polled(lambda: self._batch(timeout_s))

    def forget(self, covers: Callable[[Partition], bool]) -> None:
        super().drop(covers)

    def drop(self, covers: Callable[[Partition], bool]) -> None:
        """Drops partitions that will be fetched again, from behind what a worker has of them."""
        for partition in [key for key in self._queues if covers(key)]:
            self._queues[partition].keep_in_hand()
            self._discard_if_empty(partition)

    def invalidate(self) -> None:
        self.drop(lambda _: True)
        self.is_invalid = True

    def start_small(self) -> None:
        """Reads on as before: what is handed over at once is limited, not what is read."""
        self._batch_size = LARGEST_BATCH

    def note_speed(self, handled: int, took_s: float) -> None:
        """Does nothing, for the same reason."""
