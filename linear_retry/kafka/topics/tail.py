"""What has come to a topic since a moment, and what comes to it, read without a group?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message, TopicPartition

from linear_retry.errors import ConfigurationError
from linear_retry.kafka.consumer.messages import read_fresh
from linear_retry.kafka.topics.reader import Progress, TopicReader
from linear_retry.kafka.topics.standalone_consumer import (
    PATIENCE_S,
    StandaloneConsumer,
    is_lasting,
    text_of,
)
from linear_retry.records.record import Record

_BATCH = 1_000
_ANSWER_S = 0.5
_LOOK_EVERY_S, _LOOK_AGAIN_S = 30.0, 1.0
_MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
_FOLLOWING: dict[str, Any] = {
    # A broker that is silent, and not gone, is noticed within this, and not within a minute.
    "socket.timeout.ms": 10_000,
    "reconnect.backoff.max.ms": 1_000,
    # It waits for hours: an answer every 20 ms, as for what is read to its end, would be a load.
    "fetch.wait.max.ms": 500,
}


class TopicSince:
    """One reading of a topic: first `so_far`, to its end, then `following`, from there on."""

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str,
        since_ms: int,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._config = config
        self._topic = topic
        self._since_ms = since_ms
        self._patience_s = patience_s
        self._next: dict[int, int] = {}

    def so_far(self, progress: Progress | None = None) -> Iterator[list[Record]]:
        """What is in it when this is called, in batches, each partition in order.

        Raises `UnknownTopicError`, `BrokerError`.
        """
        self._next = self._starts()
        whole = TopicReader(self._config, self._patience_s)
        for records in whole.read(self._topic, progress, dict(self._next)):
            for record in records:
                self._next[record.partition] = record.offset + 1
            if fresh := self._fresh(records):
                yield fresh

    def following(self, look_every_s: float = _LOOK_EVERY_S) -> Following:
        """What comes after what was read so far. New partitions are looked for so often."""
        return Following(self._config, self._topic, self._next, self._patience_s, look_every_s)

    def _starts(self) -> dict[int, int]:
        with closing(StandaloneConsumer(self._config, self._patience_s)) as handle:
            bounds = handle.bounds(self._topic)
            first = handle.first_since(self._topic, bounds, self._since_ms)
        # -1 is for nothing so young, and mock brokers know no times: what is too old is passed
        # over as it is read.
        return {
            number: first[number] if first[number] >= 0 else beginning
            for number, (beginning, _) in bounds.items()
        }

    def _fresh(self, records: list[Record]) -> list[Record]:
        return [each for each in records if not 0 <= each.timestamp_ms < self._since_ms]


class Following:
    """Reads on, whether the brokers are there or not: `trouble` says what is the matter, if any."""

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str,
        starts: Mapping[int, int],
        patience_s: float,
        look_every_s: float,
    ) -> None:
        keys = _FOLLOWING | dict(config) | {"error_cb": self._hear}
        self._user_error_cb: Callable[[KafkaError], object] | None = config.get("error_cb")
        self._handle = StandaloneConsumer(keys, patience_s)
        self._topic = topic
        self._known = set(starts)
        self._look_every_s = look_every_s
        self._look_at_s = time.monotonic() + look_every_s
        self.trouble: str | None = None
        self._assign(starts)

    def __enter__(self) -> Following:
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.close()

    def read(self, wait_s: float) -> list[Record]:
        """What has come, waiting `wait_s` for the first.

        Raises `BrokerError` where it cannot be read for good, such as without permission.
        """
        consumer = self._handle.consumer
        messages = consumer.consume(1, wait_s)
        if messages:
            messages += consumer.consume(_BATCH - 1, 0)
        records = [record for each in messages if (record := self._record(each)) is not None]
        if time.monotonic() >= self._look_at_s:
            self._look()
        return records

    def _record(self, message: Message) -> Record | None:
        error = message.error()
        if error is None:
            self.trouble = None
            return read_fresh(message)
        if error.code() == KafkaError._PARTITION_EOF:
            self.trouble = None
        elif error.code() in _MISSING or error.retriable() or not is_lasting(error):
            # A broker that has just begun may not know its topics yet.
            self._say(error)
        else:
            raise self._handle.refused(f"topic {self._topic!r}", error)
        return None

    def _look(self) -> None:
        """Are the brokers there, and are there more partitions?"""
        try:
            topics = self._handle.consumer.list_topics(self._topic, timeout=_ANSWER_S).topics
            described = topics[self._topic]
            if described.error is not None:
                raise KafkaException(described.error)
        except KafkaException as problem:
            self._say(problem.args[0])
            return
        self.trouble = None
        self._look_at_s = time.monotonic() + self._look_every_s
        self._assign(dict.fromkeys(described.partitions.keys() - self._known, OFFSET_BEGINNING))

    def _assign(self, starts: Mapping[int, int]) -> None:
        places = [TopicPartition(self._topic, *start) for start in starts.items()]
        try:
            self._handle.consumer.incremental_assign(places)
        except KafkaException as error:
            raise ConfigurationError(
                f"librdkafka refuses to read {self._topic}: {text_of(error)}"
            ) from error
        self._known |= starts.keys()

    def _hear(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._say(error)
        if self._user_error_cb is not None:
            self._user_error_cb(error)

    def _say(self, error: KafkaError) -> None:
        self.trouble = f"{self._handle.where}: {error.str()}"
        self._look_at_s = time.monotonic() + _LOOK_AGAIN_S
