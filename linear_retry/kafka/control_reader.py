"""What is said on the control topic, from a moment on?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from linear_retry.dead_letter import Record
from linear_retry.errors import BrokerError
from linear_retry.kafka.groupless import PATIENCE_S, GrouplessConsumer, is_lasting
from linear_retry.kafka.messages import read_fresh

_BATCH = 500
# It is followed for as long as a consumer lives, and next to nothing is ever said there.
_QUIET: dict[str, Any] = {
    "group.id": "linear-retry-control",
    "fetch.wait.max.ms": 500,
    "queued.max.messages.kbytes": 1024,
}
# librdkafka looks for the coordinator of a group that nobody joins here: no permission is needed.
_NOT_OURS = (KafkaError.GROUP_AUTHORIZATION_FAILED,)


class ControlReader:
    """Follows a topic, in no group; used by one thread.

    Where no broker answers within `patience_s`, or one refuses, its calls raise `BrokerError`, and
    `UnknownTopicError` where there is no such topic. It is of no use then: close it.
    """

    def __init__(
        self, config: Mapping[str, Any], topic: str, patience_s: float = PATIENCE_S
    ) -> None:
        """`config` are librdkafka's keys. Raises `ConfigurationError` where one is refused."""
        self._topic = topic
        self._handle = GrouplessConsumer(dict(config) | _QUIET, patience_s)
        self._ends: dict[int, int] = {}
        self._behind: set[int] = set()

    @property
    def is_caught_up(self) -> bool:
        """Whether all has been read that was there at `begin`."""
        return not self._behind

    def begin(self, since_ms: int | None) -> None:
        """Read on from the first record of that time (UTC); None: what is yet to come."""
        numbers = self._handle.partitions(self._topic)
        # First: what is written between the two questions is then after these.
        self._ends = self._handle.ends(self._topic, numbers)
        starts = dict(self._ends)
        if since_ms is not None:
            found = self._handle.first_since(self._topic, numbers, since_ms)
            starts |= {number: offset for number, offset in found.items() if offset >= 0}
        self._behind = {number for number in numbers if starts[number] < self._ends[number]}
        self._handle.consumer.assign([TopicPartition(self._topic, *at) for at in starts.items()])

    def take(self, wait_s: float) -> list[Record]:
        """What has come; the first is waited for at most so long."""
        consumer = self._handle.consumer
        try:
            first = consumer.consume(1, wait_s)
            messages = first + consumer.consume(_BATCH - 1, 0) if first else first
        except KafkaException as error:
            raise self._refused(error.args[0]) from error
        return [record for message in messages for record in self._read(message)]

    def check(self) -> None:
        """Ask whether the topic is there as it was: from the records' silence nobody could tell."""
        numbers = set(self._handle.partitions(self._topic))
        if numbers != self._ends.keys():
            raise BrokerError(
                f"{self._handle.where}: topic {self._topic!r} has {len(numbers)} partitions now, "
                f"and had {len(self._ends)}; it is read anew"
            )

    def close(self) -> None:
        """Waits for no answer."""
        self._handle.close()

    def _read(self, message: Message) -> list[Record]:
        error, number = message.error(), message.partition() or 0
        if error is None:
            record = read_fresh(message)
            self._note(record.partition, record.offset + 1)
            return [record]
        if error.code() == KafkaError._PARTITION_EOF:
            self._note(number, message.offset() or 0)
        elif error.code() not in _NOT_OURS and (is_lasting(error) or not error.retriable()):
            raise self._refused(error)
        return []

    def _note(self, number: int, next_offset: int) -> None:
        if next_offset >= self._ends.get(number, 0):
            self._behind.discard(number)

    def _refused(self, error: KafkaError) -> BrokerError:
        return self._handle.refused(f"topic {self._topic!r}", error)
