"""The log of a fake partition, and its offsets."""

from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Record:
    """One message as the broker keeps it."""

    offset: int
    value: bytes | None
    key: bytes | None
    headers: Headers | None
    timestamp_ms: int
    timestamp_type: int = TIMESTAMP_CREATE_TIME
    leader_epoch: int = 0


@dataclass(frozen=True, slots=True)
class CorruptBatch:
    """A batch with a wrong checksum. `repeats`: librdkafka asks for it again and again.

    Otherwise it asks for an offset made of garbage next. Which of both depends on the lengths of
    the batches (librdkafka 2.16).
    """

    first: int
    last: int
    repeats: bool


@dataclass(slots=True)
class PartitionLog:
    """Records in offset order, as a `read_committed` reader finds them.

    Offsets may have gaps, at the end too. Nothing is read past what a transaction has not ended.
    `cuts` is where it was truncated, each time; each began a leader epoch. `is_fenced`: a client
    that has read an earlier topic of this name, with higher leader epochs, gets nothing.
    `broker_ms`, the broker's clock, stamps the records of a topic with `LogAppendTime`.
    """

    low: int = 0
    end: int = 0
    records: list[Record] = field(default_factory=list)
    corrupt: list[CorruptBatch] = field(default_factory=list)
    broker_ms: Callable[[], int] | None = None
    cuts: list[int] = field(default_factory=list)
    is_fenced: bool = False
    _offsets: list[int] = field(default_factory=list)
    _pending: dict[int, Record] = field(default_factory=dict)

    @property
    def stable_end(self) -> int:
        """How far it is decided what there is to read."""
        return min(self._pending) if self._pending else self.end

    def append(
        self,
        value: bytes | None,
        key: bytes | None,
        headers: Headers | None,
        timestamp_ms: int,
        gap: int = 0,
        *,
        pending: bool = False,
    ) -> int:
        """Returns the offset. `gap` offsets before it hold nothing; `pending` till it settles."""
        offset = self.end + gap
        at = (timestamp_ms, TIMESTAMP_CREATE_TIME)
        if self.broker_ms is not None:
            at = (self.broker_ms(), TIMESTAMP_LOG_APPEND_TIME)
        self._pending[offset] = Record(offset, value, key, headers, *at, len(self.cuts))
        self.end = offset + 1
        if not pending:
            self.settle(offset, commit=True)
        return offset

    def settle(self, offset: int, *, commit: bool) -> None:
        """It is there to read, or it never was."""
        record = self._pending.pop(offset)
        if commit:
            insort(self.records, record, key=lambda one: one.offset)
            insort(self._offsets, offset)

    def mark(self, count: int) -> None:
        """Transaction markers: they take offsets, and nobody can read them."""
        self.end += count

    def at_or_after(self, offset: int) -> Record | None:
        index = bisect_left(self._offsets, offset)
        found = self.records[index] if index < len(self.records) else None
        return found if found is not None and found.offset < self.stable_end else None

    def corrupt_at(self, offset: int) -> CorruptBatch | None:
        """The batch with this offset, where it cannot be read."""
        return next((one for one in self.corrupt if one.first <= offset <= one.last), None)

    def truncate(self, end: int) -> None:
        """The broker has lost what is from `end` on, and gives its offsets again."""
        index = bisect_left(self._offsets, end)
        del self.records[index:], self._offsets[index:]
        self.end = end
        self.cuts.append(end)

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
    """A topic's partitions, and what somebody asks about it. `rights`: None: the broker is mum.

    `number` tells it from an earlier one of its name.
    """

    name: str
    partitions: list[PartitionLog]
    max_message_bytes: int = 1_048_588
    retention_ms: int = 604_800_000
    timestamp_type: str = "CreateTime"
    cleanup_policy: str = "delete"
    rights: frozenset[str] | None = None
    number: int = 0
