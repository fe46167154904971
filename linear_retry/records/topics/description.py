"""Topics as the brokers describe them, and as a consumer needs them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Purpose: TypeAlias = Literal[
    "retry", "scheduler", "dead letters", "resolutions", "journal", "control"
]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic as the brokers describe it. None: they did not report it.

    `retention_ms` and `retention_bytes` are also None if nothing is removed by age, or by size.
    """

    id: str
    """Kafka's topic id, which changes if a topic is recreated."""
    partitions: int
    replication: int
    may_write: bool | None
    max_message_bytes: int | None
    retention_ms: int | None
    is_compacted: bool | None
    is_deleted: bool | None
    """Whether retention removes its records."""
    stamps_by_broker: bool | None
    min_insync_replicas: int | None = None
    retention_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class NeededTopic:
    """A topic that a consumer needs, with the settings to create it with.

    `delay_ms` is how long records wait in it (retry topics). `largest_bytes` is the size of the
    largest message that the sources allow; None: unknown, or irrelevant.
    """

    name: str
    purpose: Purpose
    partitions: int
    replication: int
    settings: Mapping[str, str] = field(default_factory=dict)
    delay_ms: int | None = None
    largest_bytes: int | None = None
