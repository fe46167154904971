"""Reads parts of partitions a second time, beside the client that is in the group."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from linear_retry.kafka.consumer.client import BEGINNING, ask_offset
from linear_retry.kafka.consumer.settings import without_group
from linear_retry.kafka.quiet import close_in_thread
from linear_retry.scope import Partition

MOST_MESSAGES = 500
_OURS: dict[str, Any] = {
    "log_level": 0,  # the consumer itself reports what is wrong with the brokers
    # These bound what is read on while nobody asks.
    "queued.min.messages": MOST_MESSAGES,
    "queued.max.messages.kbytes": 1024,
}


@dataclass(frozen=True, slots=True)
class Part:
    """All messages of a partition from `start` to before `end`.

    `is_lost`: the log begins at `end` by now. `problem`: it cannot be read, for this reason.
    """

    partition: Partition
    start: int
    end: int
    messages: list[Message]
    is_lost: bool = False
    problem: str = ""


class SecondReader:
    """Reads one partition at a time, with a client that joins no group and commits nothing.

    The position of the client that is in the group stays where it is: to seek it back would stop
    all that is read on. The client is created on first use.
    """

    def __init__(self, config: Mapping[str, Any], consumer: Callable[..., Any] = Consumer) -> None:
        """`config` is that of the partitions' consumer."""
        self._config = without_group(config) | _OURS
        self._make = consumer
        self._handle: Any = None
        self._at: tuple[Partition, int] | None = None
        self._is_new = False
        self._suspected: tuple[Partition, int, int] | None = None

    @property
    def is_reading(self) -> bool:
        """Whether it reads on: messages are sent to it, asked for or not."""
        return self._at is not None

    def read(self, partition: Partition, offset: int) -> Part | None:
        """Returns what has arrived from `offset` on; None: nothing yet. Does not wait for it.

        What was asked for before is given up, unless it ends here.
        """
        if self._handle is None:
            self._handle = self._make(self._config)
        if self._at != (partition, offset):
            self._handle.assign([TopicPartition(*partition, offset)])
            self._at, self._is_new = (partition, offset), True
        found = self._part(partition, offset, self._handle.consume(MOST_MESSAGES, 0))
        if found is not None:
            # After an error librdkafka reads on from nowhere: it is assigned again.
            self._at = None if found.problem or found.is_lost else (partition, found.end)
            self._is_new = False
        return found

    def rest(self) -> None:
        """Stops reading until it is asked again."""
        if self._at is not None:
            self._at = None
            self._handle.unassign()

    def close(self) -> None:
        """Closes the client. Does not wait for it."""
        handle, self._handle, self._at = self._handle, None, None
        if handle is not None:
            close_in_thread(handle, "second reader", 0.0)

    def _part(self, partition: Partition, offset: int, arrived: list[Message]) -> Part | None:
        end, messages = offset, list[Message]()
        for each in arrived:
            error, at = each.error(), each.offset()
            if (each.topic(), each.partition()) != partition or at is None:
                continue  # of an earlier assignment, or about the client
            if error is None or error.code() == KafkaError._PARTITION_EOF:
                if at < end:
                    continue  # librdkafka may go back by itself (#4637)
                if end == offset < at and not self._is_gap(partition, offset, at):
                    self._at = None
                    return None
                messages += [each] if error is None else []
                end = at + 1 if error is None else at
            elif end == offset:
                return self._failed(partition, offset, error)
            else:
                break  # nothing follows: it is reported again once this is assigned again
        return Part(partition, offset, end, messages) if end > offset else None

    def _is_gap(self, partition: Partition, offset: int, at: int) -> bool:
        """Whether there is nothing before `at`; else that is to be asked once more.

        What comes first after an assign may be a later one: the same again is a real gap.
        """
        suspected, self._suspected = self._suspected, (partition, offset, at)
        return not self._is_new or suspected == self._suspected

    def _failed(self, partition: Partition, offset: int, error: KafkaError) -> Part:
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            begins = ask_offset(self._handle, partition, BEGINNING)
            if begins is not None and begins > offset:
                return Part(partition, offset, begins, [], is_lost=True)
        return Part(partition, offset, offset, [], problem=error.str())
