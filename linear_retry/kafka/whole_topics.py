"""What is in a topic, from its beginning to its end, read without a group?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from linear_retry.dead_letter import Record
from linear_retry.errors import BrokerError, ConfigurationError, UnknownTopicError
from linear_retry.kafka.messages import read_fresh

_Answer = TypeVar("_Answer")

Progress: TypeAlias = Callable[[int, int], object]
"""Told how many offsets are behind, and of how many, as reading goes on."""

PATIENCE_S = 10.0
_SLICE_S = 0.5  # Ctrl-C is heard between two calls into librdkafka, not inside one
_WAIT_S = 0.1
_BATCH = 5_000

_MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
_NO_PERMISSION = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)
# librdkafka looks for the coordinator of a group that nobody joins here: no permission is needed.
_NOT_OURS = (KafkaError.GROUP_AUTHORIZATION_FAILED,)
_NO_LOGIN = (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED)
_OURS: dict[str, Any] = {
    # Nobody's offsets are touched: nothing subscribes and nothing commits.
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    # Retention may remove the head while it is read: what is left is what there is.
    "auto.offset.reset": "earliest",
    "allow.auto.create.topics": False,
    "fetch.queue.backoff.ms": 5,
}
_DEFAULTS: dict[str, Any] = {
    "group.id": "linear-retry-dlq",
    # An empty partition must not hold up the others, nor the end.
    "fetch.wait.max.ms": 20,
    # Bounds the memory, whatever is in the topic; librdkafka's own is 64 MiB.
    "queued.max.messages.kbytes": 16 * 1024,
}


@dataclass(frozen=True, slots=True)
class WholeTopics:
    """Reads topics of one cluster. `config` are librdkafka's keys.

    Each question makes a handle of its own and closes it. `BrokerError` where no broker answers
    within `patience_s`, and where one refuses.
    """

    config: Mapping[str, Any]
    patience_s: float = PATIENCE_S

    def partitions(self, topic: str) -> tuple[int, ...]:
        """The numbers of its partitions. Raises `UnknownTopicError`."""
        with closing(_Handle(self.config, self.patience_s)) as handle:
            return handle.partitions(topic)

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        """Of each partition its first offset, and the one after the last that is committed."""
        with closing(_Handle(self.config, self.patience_s)) as handle:
            return handle.bounds(topic)

    def read(
        self,
        topic: str,
        progress: Progress | None = None,
        starts: Mapping[int, int] | None = None,
    ) -> Iterator[list[Record]]:
        """What is in it when this is called, in batches, each partition in order.

        `starts`: the partitions to read and where from; else all of them, from their beginning.
        Raises `UnknownTopicError`, `BrokerError`.
        """
        with closing(_Handle(self.config, self.patience_s)) as handle:
            bounds = handle.bounds(topic)
            if starts is not None:
                bounds = {
                    number: (max(starts[number], first), end)
                    for number, (first, end) in bounds.items()
                    if number in starts
                }
            yield from _Course(handle, topic, bounds, progress or _nobody).batches()


def _nobody(_: int, __: int) -> None:
    """For who does not ask how far it is."""


class _Handle:
    """One confluent_kafka `Consumer` that is in no group."""

    def __init__(self, config: Mapping[str, Any], patience_s: float) -> None:
        self.where = str(
            config.get("bootstrap.servers") or config.get("metadata.broker.list") or "no address"
        )
        self.patience_s = patience_s
        self._last_error: KafkaError | None = None
        self._user_error_cb: Callable[[KafkaError], object] | None = config.get("error_cb")
        keys = _DEFAULTS | {"log_level": 0} | dict(config) | _OURS | {"error_cb": self._hear}
        try:
            self.consumer = Consumer(keys)
        except (KafkaException, ValueError, TypeError) as error:
            raise ConfigurationError(
                f"librdkafka refuses the configuration: {text_of(error)}; correct the key it names"
            ) from error

    def close(self) -> None:
        self.consumer.close()

    def partitions(self, topic: str) -> tuple[int, ...]:
        def ask() -> tuple[int, ...]:
            described = self.consumer.list_topics(topic, timeout=_SLICE_S).topics[topic]
            if described.error is not None:
                raise KafkaException(described.error)
            return tuple(sorted(described.partitions))

        return self._answer(f"topic {topic!r}", ask)

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        numbers = self.partitions(topic)
        first = self._edges(topic, numbers, OFFSET_BEGINNING)
        ends = self.ends(topic, numbers)
        return {number: (first[number], ends[number]) for number in numbers}

    def ends(self, topic: str, numbers: Iterable[int]) -> dict[int, int]:
        """The offset after the last that is committed, of these partitions."""
        return self._edges(topic, numbers, OFFSET_END)

    def refused(self, what: str, error: KafkaError) -> BrokerError:
        """What to raise for an error that waiting does not mend."""
        if error.code() in _MISSING:
            return UnknownTopicError(f"{self.where}: there is no {what}; check its name")
        if error.code() in _NO_PERMISSION:
            return BrokerError(
                f"{self.where}: no permission for {what} ({error.str()}); ask for READ and "
                "DESCRIBE on it"
            )
        if error.code() == KafkaError.TOPIC_EXCEPTION:
            return BrokerError(
                f"{self.where}: {what} cannot be a topic's name: letters, digits, '.', '_' and "
                "'-', at most 249"
            )
        return BrokerError(f"{self.where}: {what} cannot be read: {error.str()}")

    def silent(self, what: str, error: KafkaError | None) -> BrokerError:
        """What to raise where no answer has come in time."""
        why = self._last_error or error
        return BrokerError(
            f"{self.where}: no answer about {what} within {self.patience_s:g} s"
            f"{'' if why is None else f' ({why.str()})'}; check the address, the security "
            "settings, and that it is reachable from here"
        )

    def _edges(self, topic: str, numbers: Iterable[int], edge: int) -> dict[int, int]:
        left = set(numbers)
        found: dict[int, int] = {}

        def ask() -> dict[int, int]:
            asked = [TopicPartition(topic, number, edge) for number in left]
            for place in self.consumer.offsets_for_times(asked, timeout=_SLICE_S) if asked else ():
                if place.error is not None:
                    raise KafkaException(place.error)
                found[place.partition] = place.offset
                left.discard(place.partition)
            return found

        return self._answer(f"topic {topic!r}", ask)

    def _answer(self, what: str, ask: Callable[[], _Answer]) -> _Answer:
        deadline_s = time.monotonic() + self.patience_s
        while True:
            try:
                return ask()
            except KafkaException as problem:
                error: KafkaError = problem.args[0]
                self.consumer.poll(0)  # lets `_hear` be called
                if _is_lasting(error):
                    raise self.refused(what, error) from problem
                if self._last_error is not None and self._last_error.code() in _NO_LOGIN:
                    raise BrokerError(
                        f"{self.where}: the login is refused ({self._last_error.str()}); check "
                        "the sasl.* keys"
                    ) from problem
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise self.silent(what, error) from problem
                # An answer that comes at once, such as "no leader yet", must not spin.
                self.consumer.poll(min(_WAIT_S, left_s))

    def _hear(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN or self._last_error is None:
            self._last_error = error
        if self._user_error_cb is not None:
            self._user_error_cb(error)


def _is_lasting(error: KafkaError) -> bool:
    return error.code() in (*_MISSING, *_NO_PERMISSION, KafkaError.TOPIC_EXCEPTION) or error.fatal()


@dataclass(slots=True)
class _Course:
    """One reading of a topic: which partitions are still to come, and how far each is."""

    handle: _Handle
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
            records = self._records(self._messages())
            if records:
                yield records
                self.progress(total - self._to_come(), total)
                moved_at_s = time.monotonic()
            elif time.monotonic() - moved_at_s > self.handle.patience_s:
                self._end_earlier()
                moved_at_s = time.monotonic()

    def _messages(self) -> list[Message]:
        consumer = self.handle.consumer
        # What is there already comes at once: asked for all, `consume` would wait to be full.
        first = consumer.consume(1, _WAIT_S)
        return first + consumer.consume(_BATCH - 1, 0) if first else first

    def _end_earlier(self) -> None:
        """Nothing has come for long: ask again where the ends are.

        After an unclean election of a leader a partition may be shorter than it was. Raises
        `BrokerError` where no broker answers, and where one does and that is not the reason.
        """
        ends = self.handle.ends(self.topic, tuple(self._ends))
        waiting = {
            number for number, end in self._ends.items() if self._next[number] < ends[number]
        }
        if waiting == self._ends.keys():
            number = min(waiting)
            raise BrokerError(
                f"{self.handle.where}: {self.topic}[{number}] gives nothing at offset "
                f"{self._next[number]}, though it goes on to {ends[number]}; check that its leader "
                "is well"
            )
        self._ends = {number: self._ends[number] for number in waiting}

    def _to_come(self) -> int:
        return sum(max(end - self._next[number], 0) for number, end in self._ends.items())

    def _records(self, messages: list[Message]) -> list[Record]:
        """Those before the ends. A partition is at its end with the last offset, or at an EOF:

        behind the last message may be what nobody sees, such as the marker of a transaction.
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
        elif error.code() not in _NOT_OURS and (_is_lasting(error) or not error.retriable()):
            raise self.handle.refused(f"topic {self.topic!r}", error)


def text_of(error: BaseException) -> str:
    first = error.args[0] if error.args else error
    return first.str() if isinstance(first, KafkaError) else str(first)
