"""The clients for reading and replaying dead letters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from linear_retry.errors import UnknownTopicError
from linear_retry.kafka import Producer
from linear_retry.kafka.topics.description import Topics
from linear_retry.kafka.topics.groups import Groups
from linear_retry.kafka.topics.reader import TopicReader
from linear_retry.kafka.topics.standalone_consumer import ANSWER_TIMEOUT_S
from linear_retry.records.record import Record


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster. `config` holds librdkafka's keys; `producer` creates the client that writes."""

    config: Mapping[str, Any]
    timeout_s: float = ANSWER_TIMEOUT_S
    producer: Callable[..., Any] = Producer

    @property
    def reader(self) -> TopicReader:
        return TopicReader(self.config, self.timeout_s)

    @property
    def topics(self) -> Topics:
        return Topics(self.config, self.timeout_s)

    @property
    def groups(self) -> Groups:
        return Groups(self.config, self.timeout_s)

    def record_at(self, topic: str, partition: int, offset: int) -> Record | None:
        """The record at this place; None if it is gone."""
        try:
            first, *_ = next(self.reader.read(topic, starts={partition: offset}), [None])
        except UnknownTopicError:
            return None
        return first if first is not None and first.offset == offset else None
