"""Reads a topic from a time on and follows it, without a group."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message, TopicPartition

from linear_retry.errors import ConfigurationError
from linear_retry.kafka.consumer.messages import read_fresh
from linear_retry.kafka.quiet import text_of
from linear_retry.kafka.topics.reader import Progress, TopicReader, consume_available
from linear_retry.kafka.topics.standalone_consumer import (
    ANSWER_TIMEOUT_S,
    MISSING,
    StandaloneConsumer,
    is_lasting,
)
from linear_retry.records.record import Record

_LOOK_EVERY_S, _LOOK_AGAIN_S = 30.0, 1.0
_FOLLOWING: dict[str, Any] = {
    # Notices a broker that hangs within this time, not only after a minute.
    "socket.timeout.ms": 10_000,
    "reconnect.backoff.max.ms": 1_000,
    # It waits for hours: a response every 20 ms, as when reading to the end, would be a load.
    "fetch.wait.max.ms": 500,
}


class TopicTail:
    """Reads a topic from a time on: the `backlog` first, then, within `follow`, new records.

    It keeps following while brokers are down; `trouble` is then the reason. Checks for new
    partitions every `look_every_s`.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str,
        since_ms: int,
        timeout_s: float = ANSWER_TIMEOUT_S,
        look_every_s: float = _LOOK_EVERY_S,
    ) -> None:
        self.trouble: str | None = None
        self._is_missing = False
        self._config = config
        self._topic = topic
        self._since_ms = since_ms
        self._timeout_s = timeout_s
        self._look_every_s = look_every_s
        self._look_after_s = look_every_s
        self._look_at_s = 0.0
        self._next: dict[int, int] = {}
        self._handle: StandaloneConsumer

    @property
    def positions(self) -> dict[int, int]:
        """The offset after the last that was read, by partition; negative where none was."""
        return dict(self._next)

    def begin_at(self, positions: Mapping[int, int]) -> None:
        """In place of the backlog: `follow` reads from here, other partitions from their beginning.

        An offset that retention has removed counts as the beginning.
        """
        self._next = dict(positions)
        self._look_after_s = 0.0

    def backlog(self, progress: Progress | None = None) -> Iterator[list[Record]]:
        """Yields what is in the topic when this is called, in batches, each partition in order.

        Raises `UnknownTopicError`, `BrokerError`.
        """
        self._next = self._starts()
        reader = TopicReader(self._config, self._timeout_s)
        for records in reader.read(self._topic, progress, dict(self._next)):
            for record in records:
                self._next[record.partition] = record.offset + 1
            if young := [each for each in records if not 0 <= each.timestamp_ms < self._since_ms]:
                yield young

    @contextmanager
    def follow(self) -> Iterator[TopicTail]:
        """Within this context, `read` returns the records after the backlog."""

        def on_error(error: KafkaError) -> None:
            if error.code() == KafkaError._ALL_BROKERS_DOWN:
                self._note(error)

        keys = _FOLLOWING | dict(self._config) | {"error_cb": on_error}
        with closing(StandaloneConsumer(keys, self._timeout_s)) as self._handle:
            self._look_at_s = time.monotonic() + self._look_after_s
            self._assign(self._next)
            yield self

    def read(self, wait_s: float) -> list[Record]:
        """Returns new records, waiting up to `wait_s` for the first.

        Raises `BrokerError` if reading is refused for good, such as without permission.
        """
        messages = consume_available(self._handle.consumer, wait_s)
        records = [record for each in messages if (record := self._record(each)) is not None]
        if time.monotonic() >= self._look_at_s:
            self._look_for_partitions()
        return records

    def _starts(self) -> dict[int, int]:
        with closing(StandaloneConsumer(self._config, self._timeout_s)) as handle:
            bounds = handle.bounds(self._topic)
            first = handle.offsets(self._topic, bounds, self._since_ms)
        # -1 means nothing that young, and mock brokers ignore times: records that are too old
        # are skipped as they are read.
        return {
            number: first[number] if first[number] >= 0 else beginning
            for number, (beginning, _) in bounds.items()
        }

    def _record(self, message: Message) -> Record | None:
        error = message.error()
        if error is None:
            self.trouble = None
            record = read_fresh(message)
            self._next[record.partition] = record.offset + 1
            return record
        if error.code() == KafkaError._PARTITION_EOF:
            self.trouble = None
            # Offsets before the end may be invisible, such as a transaction's marker.
            self._next[message.partition() or 0] = message.offset() or 0
        elif error.code() in MISSING or error.retriable() or not is_lasting(error):
            # A broker that has just started may not know its topics yet.
            self._note(error)
        else:
            raise self._handle.refused(f"topic {self._topic!r}", error)
        return None

    def _look_for_partitions(self) -> None:
        try:
            found = self._handle.partitions_now(self._topic)
        except KafkaException as problem:
            self._note(problem.args[0])
            return
        self.trouble = None
        self._look_at_s = time.monotonic() + self._look_every_s
        new = dict.fromkeys(set(found) - self._next.keys(), OFFSET_BEGINNING)
        self._assign(new)
        self._next |= new

    def _assign(self, starts: Mapping[int, int]) -> None:
        places = [TopicPartition(self._topic, *start) for start in starts.items()]
        try:
            self._handle.consumer.incremental_assign(places)
        except KafkaException as error:
            raise ConfigurationError(
                f"librdkafka refuses to read {self._topic}: {text_of(error)}"
            ) from error

    def _note(self, error: KafkaError) -> None:
        """Keeps the first error of an outage: "brokers are down", then "timed out", is one."""
        is_missing = error.code() in MISSING
        if self.trouble is None or is_missing != self._is_missing:
            self.trouble = f"{self._handle.where}: {error.str()}"
            self._is_missing = is_missing
        self._look_at_s = time.monotonic() + _LOOK_AGAIN_S
