"""What does a partition hold, and at which offsets?"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Record:
    """One message as the broker keeps it."""

    offset: int
    value: bytes | None
    key: bytes | None
    headers: Headers | None
    timestamp_ms: int


@dataclass(slots=True)
class PartitionLog:
    """Records in offset order; offsets may have gaps, at the end too."""

    low: int = 0
    end: int = 0
    records: list[Record] = field(default_factory=list)
    _offsets: list[int] = field(default_factory=list)

    def append(
        self,
        value: bytes | None,
        key: bytes | None,
        headers: Headers | None,
        timestamp_ms: int,
        gap: int = 0,
    ) -> int:
        """Returns the offset. `gap` offsets before it hold nothing."""
        offset = self.end + gap
        self.records.append(Record(offset, value, key, headers, timestamp_ms))
        self._offsets.append(offset)
        self.end = offset + 1
        return offset

    def mark(self, count: int) -> None:
        """Transaction markers: they take offsets, and nobody can read them."""
        self.end += count

    def at_or_after(self, offset: int) -> Record | None:
        index = bisect_left(self._offsets, offset)
        return self.records[index] if index < len(self.records) else None

    def before(self, offset: int) -> Record | None:
        """The last record below `offset`."""
        index = bisect_left(self._offsets, offset)
        return self.records[index - 1] if index else None

    def delete_before(self, offset: int) -> None:
        """Retention removes what is below `offset`."""
        index = bisect_left(self._offsets, offset)
        del self.records[:index], self._offsets[:index]
        self.low = max(self.low, offset)
        self.end = max(self.end, offset)


@dataclass(slots=True)
class FakeTopic:
    """A topic's partitions and the two settings that somebody asks for."""

    name: str
    partitions: list[PartitionLog]
    max_message_bytes: int = 1_048_588
    retention_ms: int = 604_800_000
