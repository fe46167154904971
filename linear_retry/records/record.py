"""A record as it was read from Kafka, and one to be sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from linear_retry.records.text import Header
from linear_retry.scope import Place


@dataclass(frozen=True, slots=True)
class Record:
    """A message read from Kafka, with its headers made safe to send."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """-1 if the message has none."""
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    """All headers in order, in a form that can be sent."""
    escaped_headers: tuple[str, ...] = ()
    """The names, as in `headers`, of those that had to be changed."""

    @property
    def place(self) -> Place:
        return Place(self.topic, self.partition, self.offset)


class OutgoingRecord(NamedTuple):
    """A record to be sent.

    Without a partition librdkafka chooses one by the key (murmur2); without a timestamp it uses the
    time of sending. A named tuple: a replay creates millions, and a frozen dataclass takes 3 us.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    partition: int | None = None
    timestamp_ms: int | None = None

    @property
    def destination(self) -> str:
        """`topic[partition]`, or the topic alone if no partition is set."""
        return self.topic if self.partition is None else f"{self.topic}[{self.partition}]"
