"""Topics as they are, and as a consumer needs them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Purpose: TypeAlias = Literal["retry", "dead letters", "resolutions", "journal", "control"]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic as the brokers describe it. None: they would not say.

    `retention_ms` and `retention_bytes` are None as well where nothing is removed for its age, or
    for its size.
    """

    id: str
    """The brokers' own: another one after a topic of this name was recreated."""
    partitions: int
    replication: int
    may_write: bool | None
    max_message_bytes: int | None
    retention_ms: int | None
    is_compacted: bool | None
    is_deleted: bool | None
    """Whether retention removes what is in it."""
    stamps_by_broker: bool | None
    min_insync_replicas: int | None = None
    retention_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class NeededTopic:
    """A topic that a consumer needs, with the settings to create it with.

    `delay_ms` is for how long records wait in it (retry topics). `largest_bytes` is the largest
    message that the sources allow; None: it is not known, or does not matter here.
    """

    name: str
    purpose: Purpose
    partitions: int
    replication: int
    settings: Mapping[str, str] = field(default_factory=dict)
    delay_ms: int | None = None
    largest_bytes: int | None = None
