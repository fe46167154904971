"""Forms the batches of `run_batches`, and takes apart those that fail for good."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate

from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.errors import ConfigurationError
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import offset_of, partition_of, size_bytes
from linear_retry.retry.case import Held
from linear_retry.scope import Partition


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What a batch may have at most; one message may be larger than `max_bytes`, alone."""

    max_messages: int
    max_bytes: int

    def __post_init__(self) -> None:
        for name in ("max_messages", "max_bytes"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigurationError(f"{name}={value!r}: must be a whole number from 1 on")


class Batches:
    """Forms batches of one partition from the read-ahead.

    A batch that has failed for good is taken apart: each of its messages is a batch of its own, so
    that none is given up for another's failure. Until the last of them, and in that assignment
    only; then there are batches again.
    """

    def __init__(self, assignment: Assignment, read_ahead: ReadAhead) -> None:
        self._assignment = assignment
        self._read_ahead = read_ahead
        self._apart: dict[Partition, Held[Message]] = {}

    def next(
        self, limits: BatchLimits, for_us: Callable[[list[Message], int], list[Message]]
    ) -> list[Message]:
        """Returns the next batch, from the front of the read-ahead; it may be empty.

        `for_us` leaves out what is not to be handed over, and makes the headers safe to read.
        """
        ahead = self._read_ahead.messages
        if not ahead:
            return []
        count, before = self._gather(ahead, limits), len(ahead)
        messages = for_us(ahead, count)
        if len(ahead) != before:  # others are at the front now: next time
            return []
        return self._fitting(messages, limits)

    def take_apart(self, held: Held[Message], *, keep: bool) -> None:
        """Makes each of its messages a batch; `keep` puts them back to be the next."""
        self._apart[held.partition] = held
        if keep:
            self._read_ahead.messages[:0] = [held.message, *held.others]

    def resumed(self, found: Held[Message]) -> Held[Message]:
        """Returns this message, about to fail, with the failures of the batch that it was in."""
        if not self._is_apart(found.partition, found.offset):
            return found
        batch = self._apart[found.partition]
        return replace(batch, message=found.message, offset=found.offset, others=())

    def _gather(self, ahead: list[Message], limits: BatchLimits) -> int:
        """Moves the next messages of the first one's partition to the front; returns how many."""
        first = partition_of(ahead[0])
        most = 1 if self._is_apart(first, offset_of(ahead[0])) else limits.max_messages
        chosen: list[Message] = []
        others: list[Message] = []
        for message in ahead:
            (chosen if partition_of(message) == first else others).append(message)
            if len(chosen) == most:
                break
        ahead[: len(chosen) + len(others)] = chosen + others
        return len(chosen)

    def _fitting(self, messages: list[Message], limits: BatchLimits) -> list[Message]:
        """Returns as many as `max_bytes` allows, at least one; lets the read-ahead grow to it."""
        sums = list(accumulate(map(size_bytes, messages)))
        if sums:
            fit_on_average = limits.max_bytes * len(sums) // max(sums[-1], 1)
            self._read_ahead.grow(min(limits.max_messages, fit_on_average))
        return messages[: max(sum(total <= limits.max_bytes for total in sums), 1)]

    def _is_apart(self, partition: Partition, offset: int) -> bool:
        """Whether its batch was taken apart. A batch of an earlier assignment is forgotten."""
        batch = self._apart.get(partition)
        if batch is None:
            return False
        is_ours = batch.epoch == self._assignment.epochs.get(partition)
        if is_ours and offset <= offset_of(batch.others[-1]):
            return True
        del self._apart[partition]
        return False
