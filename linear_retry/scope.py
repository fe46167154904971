"""Partitions, message coordinates, and the scopes that circuits pause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

Partition: TypeAlias = tuple[str, int]
"""A topic and a partition number: the key of everything that is kept per partition."""


class Place(NamedTuple):
    """A message's coordinates: topic, partition, offset."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.offset}"


ScopeKind: TypeAlias = Literal["consumer", "topic", "partition"]


@dataclass(frozen=True, slots=True)
class Scope:
    """The partitions that an open circuit pauses.

    `Scope(None, None)` is every partition assigned to the consumer, `Scope(topic, None)` those of
    one topic, `Scope(topic, partition)` a single one.
    """

    topic: str | None = None
    partition: int | None = None

    @classmethod
    def of(cls, kind: ScopeKind, partition: Partition) -> Scope:
        """The scope that contains `partition`, for a consumer with `scope=kind`."""
        match kind:
            case "consumer":
                return cls()
            case "topic":
                return cls(partition[0])
            case "partition":
                return cls(*partition)

    def covers(self, partition: Partition) -> bool:
        """Whether `partition` is paused while this scope's circuit is open."""
        return self.topic in (None, partition[0]) and self.partition in (None, partition[1])

    def __str__(self) -> str:
        if self.topic is None:
            return "consumer"
        return self.topic if self.partition is None else f"{self.topic}[{self.partition}]"
