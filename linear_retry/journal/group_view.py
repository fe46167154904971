"""The values that describe a group, as far as its journal shows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from linear_retry.events import WaitReason
from linear_retry.journal.entry import Entry
from linear_retry.records.process import Process
from linear_retry.scope import Partition, Place, Scope

CircuitState: TypeAlias = Literal["open", "half-open"]
_GONE_MS = 600_000

MemberState: TypeAlias = Literal["open", "closed", "idle", "silent", "stopped"]


@dataclass(frozen=True, slots=True)
class OpenCircuit:
    """A circuit that is open according to its member's entries. Times are UTC milliseconds.

    `held` is None if its partition was revoked since. `failures` and `error` are from the last
    entry about it; `failures` is None if no entry has them. `retried_ms` is when an operator's
    retry started, if that was the last entry.
    """

    member: str
    instance: str
    scope: Scope
    since_ms: int
    retry_at_ms: int
    last_event_ms: int
    held: Place | None = None
    waits_for: WaitReason = "failed"
    error: str = ""
    failures: int | None = None
    sends: int = 0
    retried_ms: int | None = None
    process: Process | None = None

    def state(self, now_ms: int) -> CircuitState:
        """`half-open` from `due_ms` on: the next attempt is in progress, or its member is gone.

        The journal shows only how the attempt ended.
        """
        return "half-open" if self.due_ms <= now_ms else "open"

    @property
    def due_ms(self) -> int:
        """When the next attempt starts or started."""
        return self.retry_at_ms if self.retried_ms is None else self.retried_ms


@dataclass(frozen=True, slots=True)
class Member:
    """A member; of a static one, its newest instance. Times are UTC milliseconds.

    `partitions` are those it has, according to the journal; `taken` are those that another member
    (the value) was assigned since, without an entry of this one. The state is

    - `open`: it has an open circuit;
    - `closed`: it has partitions, and none is paused;
    - `idle`: it reported that it has none;
    - `silent`: all its partitions went to others, and it reported nothing about that: it is killed,
      stuck or cut off, and a journal cannot tell which;
    - `stopped`: it reported its end; `left_group` is false if its partitions wait for its return.

    `process` is where it runs, if that is known. The last of its `missing` events was before
    `missing_ms`.

    A member without events writes nothing: `last_event_ms` may be long ago though it is healthy.
    """

    member: str
    instance: str
    state: MemberState
    since_ms: int
    last_event_ms: int
    partitions: tuple[Partition, ...]
    taken: Mapping[Partition, str]
    left_group: bool | None
    lives: int
    missing: int
    process: Process | None = None
    missing_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of outcomes in the entries that were read.

    `retries` counts messages sent to retry topics, each time; the last of them is due at
    `retries_until_ms` (0: there are none).
    """

    entries: int = 0
    letters: int = 0
    letter_failures: int = 0
    recoveries: int = 0
    skipped: int = 0
    retries: int = 0
    retries_until_ms: int = 0
    handed_over: int = 0


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group. `missing` counts the events that are not in the journal, though later ones are.

    `topics` are those that its members have partitions of; if none has one, those that any had.
    """

    group: str
    members: tuple[Member, ...]
    circuits: tuple[OpenCircuit, ...]
    last_events: tuple[Entry, ...]
    counts: Counts
    missing: int
    topics: tuple[str, ...] = ()

    def present(self, now_ms: int) -> tuple[Member, ...]:
        """The members, without those that left the group more than ten minutes ago."""
        gone_ms = now_ms - _GONE_MS
        return tuple(
            one for one in self.members if not one.left_group or one.last_event_ms > gone_ms
        )

    def of(self, member: str) -> Iterator[OpenCircuit]:
        """The open circuits of this member."""
        return (circuit for circuit in self.circuits if circuit.member == member)
