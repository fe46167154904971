"""Reads a topic from its beginning to its end, without a group."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeAlias

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from linear_retry.kafka.consumer.messages import read_fresh
from linear_retry.kafka.topics.standalone_consumer import (
    ANSWER_TIMEOUT_S,
    StandaloneConsumer,
    is_lasting,
)
from linear_retry.records.record import Record

Progress: TypeAlias = Callable[[int, int], object]
"""Called while reading, with the number of offsets read and the total."""

_WAIT_S = 0.1
_BATCH = 1_000

# librdkafka looks up this group's coordinator, but never joins: no permission is needed.
_NOT_OURS = (KafkaError.GROUP_AUTHORIZATION_FAILED,)


@dataclass(frozen=True, slots=True)
class TopicReader:
    """Reads topics of one cluster. `config` has librdkafka's keys.

    Each call creates and closes its own client. Raises `BrokerError` if no broker answers within
    `timeout_s`, or one refuses.
    """

    config: Mapping[str, Any]
    timeout_s: float = ANSWER_TIMEOUT_S

    def topics(self) -> frozenset[str]:
        """The names of all topics in the cluster that this user may see."""
        with closing(StandaloneConsumer(self.config, self.timeout_s)) as handle:
            return handle.topics()

    def partitions(self, topic: str) -> tuple[int, ...]:
        """Returns the numbers of its partitions. Raises `UnknownTopicError`."""
        with closing(StandaloneConsumer(self.config, self.timeout_s)) as handle:
            return handle.partitions(topic)

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        """Returns each partition's first offset, and the one after the last committed record."""
        with closing(StandaloneConsumer(self.config, self.timeout_s)) as handle:
            return handle.bounds(topic)

    def read(
        self,
        topic: str,
        progress: Progress | None = None,
        starts: Mapping[int, int] | None = None,
        ends: Mapping[int, int] | None = None,
    ) -> Iterator[list[Record]]:
        """Yields what is in the topic when this is called, in batches, each partition in order.

        `starts` has the partitions to read and their first offsets; None: all, from the beginning.
        `ends` has offsets at which to end before. Raises `UnknownTopicError`, `BrokerError`.
        """
        with closing(StandaloneConsumer(self.config, self.timeout_s)) as handle:
            bounds = handle.bounds(topic)
            if starts is not None:
                bounds = {
                    number: (max(starts[number], first), end)
                    for number, (first, end) in bounds.items()
                    if number in starts
                }
            if ends is not None:
                bounds = {
                    number: (first, min(end, ends.get(number, end)))
                    for number, (first, end) in bounds.items()
                }
            yield from _Reading(handle, topic, bounds, progress or (lambda *_: None)).batches()

    def read_all(self, topic: str) -> list[Record]:
        """Like `read`, all at once."""
        return list(chain.from_iterable(self.read(topic)))


def consume_available(consumer: Consumer, wait_s: float) -> list[Message]:
    """Waits for one message, then takes what is queued: `consume` would wait for all."""
    try:
        first = consumer.consume(1, wait_s)
        return first + consumer.consume(_BATCH - 1, 0) if first else first
    except SystemError as error:
        # confluent-kafka 2.16 loses what Ctrl-C raises within a callback, which runs in here while
        # brokers are away, and "returned NULL without setting an exception".
        raise KeyboardInterrupt from error


@dataclass(slots=True)
class _Reading:
    """One pass: the partitions not yet at their end, and the position in each."""

    handle: StandaloneConsumer
    topic: str
    bounds: Mapping[int, tuple[int, int]]
    progress: Progress
    _next: dict[int, int] = field(default_factory=dict)
    _ends: dict[int, int] = field(default_factory=dict)

    def batches(self) -> Iterator[list[Record]]:
        self._next = {n: first for n, (first, end) in self.bounds.items() if first < end}
        self._ends = {n: self.bounds[n][1] for n in self._next}
        total = self._to_come()
        if not self._next:
            return
        self.handle.consumer.assign(
            [TopicPartition(self.topic, *start) for start in self._next.items()]
        )
        moved_at_s = time.monotonic()
        while self._ends:
            records = self._records(consume_available(self.handle.consumer, _WAIT_S))
            if records:
                yield records
                self.progress(total - self._to_come(), total)
                moved_at_s = time.monotonic()
            elif time.monotonic() - moved_at_s > self.handle.timeout_s:
                raise self.handle.timed_out(f"topic {self.topic!r}")

    def _to_come(self) -> int:
        return sum(max(end - self._next[number], 0) for number, end in self._ends.items())

    def _records(self, messages: list[Message]) -> list[Record]:
        """Returns the records before the ends. A partition ends with its last offset or at an EOF:

        offsets after its last message may be invisible, such as a transaction's marker.
        """
        records: list[Record] = []
        ends, following = self._ends, self._next
        for message in messages:
            error = message.error()
            if error is not None:
                self._take(message, error)
                continue
            record = read_fresh(message)
            number = record.partition
            end = ends.get(number)
            if end is None:
                continue
            if record.offset < end:
                records.append(record)
            following[number] = record.offset + 1
            if record.offset + 1 >= end:
                del ends[number]
        return records

    def _take(self, message: Message, error: KafkaError) -> None:
        number = message.partition()
        if error.code() == KafkaError._PARTITION_EOF:
            if number in self._ends:
                self._next[number] = max(self._next[number], message.offset() or 0)
                if self._next[number] >= self._ends[number]:
                    del self._ends[number]
        elif error.code() not in _NOT_OURS and (is_lasting(error) or not error.retriable()):
            raise self.handle.refused(f"topic {self.topic!r}", error)
