"""A Kafka record as the library reads it."""

from __future__ import annotations

from dataclasses import dataclass

from linear_retry.records.header_text import Header


@dataclass(frozen=True, slots=True)
class Record:
    """A message as it came from Kafka, safely read."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """-1 where the message has none."""
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    """All of them, in order, each as it may be sent."""
    escaped_headers: tuple[str, ...] = ()
    """The names, as in `headers`, of those that could not be kept as they were."""
