"""Partitions, message coordinates, and the scopes that circuits pause."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple, TypeAlias

Partition: TypeAlias = tuple[str, int]
"""A topic and a partition number: the key of everything that is kept per partition."""


_PLACE = re.compile(r"([^:\[\]@]+)(?:\[([0-9]{1,9})\]|:([0-9]{1,9}))@([0-9]{1,18})")


class Place(NamedTuple):
    """A message's coordinates: topic, partition, offset."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.offset}"

    @classmethod
    def of(cls, text: str) -> Place | None:
        """Reads `orders[3]@812`, or `orders:3@812`; None if it is neither."""
        found = _PLACE.fullmatch(text)
        return found and cls(found[1], int(found[2] or found[3]), int(found[4]))


UNKEYED = "unkeyed"
"""Stands for a key in the scope of messages that have none; with `@` and its offset, of one."""

ScopeKind: TypeAlias = Literal["consumer", "topic", "partition"]
"""The scopes in which an open circuit pauses partitions."""

AnyScope: TypeAlias = Literal[ScopeKind, "key"]


@dataclass(frozen=True, slots=True)
class Scope:
    """What an open circuit stops.

    `Scope(None, None)` is every partition assigned to the consumer, `Scope(topic, None)` those of
    one topic, `Scope(topic, partition)` a single one; all of these are paused. With a `key` it is
    one key of that partition, named by a digest of 12 hex digits: the others go on. Messages
    without a key have `unkeyed` in its place, or `unkeyed@812` where they have no order.
    """

    topic: str | None = None
    partition: int | None = None
    key: str | None = None

    @classmethod
    def of(cls, kind: AnyScope, partition: Partition, key: str | None = None) -> Scope:
        """The scope of a message with this key, for a consumer with `scope=kind`."""
        match kind:
            case "consumer":
                return cls()
            case "topic":
                return cls(partition[0])
            case "partition":
                return cls(*partition)
            case "key":
                return cls(*partition, key)

    @property
    def home(self) -> Partition:
        """The partition that it is, or that its key is in; a wider scope has none."""
        if self.topic is None or self.partition is None:
            raise AssertionError(f"{self} is no partition and no key: a bug; please report it")
        return self.topic, self.partition

    def covers(self, partition: Partition) -> bool:
        """Whether `partition` is paused while this scope's circuit is open."""
        return (
            self.key is None
            and self.topic in (None, partition[0])
            and self.partition in (None, partition[1])
        )

    def concerns(self, partition: Partition) -> bool:
        """Whether it is about `partition`, or about a key in it."""
        return self.covers(partition) or (self.topic, self.partition) == partition

    def __str__(self) -> str:
        if self.topic is None:
            return "consumer"
        if self.partition is None:
            return self.topic
        place = f"{self.topic}[{self.partition}]"
        return place if self.key is None else f"{place} key {self.key}"


def partitions_text(found: Iterable[Partition]) -> str:
    """Formats partitions as `orders[0-2,5]`, with runs of numbers shortened."""
    return ", ".join(
        f"{topic}[{','.join(_runs(number for _, number in those))}]"
        for topic, those in groupby(sorted(found), key=lambda partition: partition[0])
    )


def _runs(numbers: Iterable[int]) -> Iterable[str]:
    # Within a run, number minus position is constant.
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        first, *rest = (number for _, number in run)
        yield f"{first}-{rest[-1]}" if rest else str(first)
