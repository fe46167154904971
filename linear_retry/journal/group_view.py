"""The values that say how a group stands, as far as its journal tells."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from linear_retry.events import WaitReason
from linear_retry.journal.entry import Entry
from linear_retry.records.process import Process
from linear_retry.scope import Partition, Place, Scope

CircuitState: TypeAlias = Literal["open", "half-open"]
MemberState: TypeAlias = Literal["open", "closed", "idle", "silent", "stopped"]


@dataclass(frozen=True, slots=True)
class OpenCircuit:
    """A circuit that is open as far as its member has said. Times are UTC milliseconds.

    `held` is None where its partition was taken back since. `failures` and `error` are those of the
    last word about it; `failures` is None where no word has told them. `retried_ms` is when an
    operator had it retried, where that was the last word.
    """

    member: str
    instance: str
    scope: Scope
    since_ms: int
    retry_at_ms: int
    last_word_ms: int
    held: Place | None = None
    waits_for: WaitReason = "failed"
    error: str = ""
    failures: int | None = None
    sends: int = 0
    retried_ms: int | None = None
    process: Process | None = None

    def state(self, now_ms: int) -> CircuitState:
        """`half-open` from `due_ms` on: the next attempt is under way, or nobody is there to make
        it. The journal tells only how it ended."""
        return "half-open" if self.due_ms <= now_ms else "open"

    @property
    def due_ms(self) -> int:
        """When the next attempt begins, or began."""
        return self.retry_at_ms if self.retried_ms is None else self.retried_ms


@dataclass(frozen=True, slots=True)
class Member:
    """One member: of a static one, its newest life. Times are UTC milliseconds.

    `partitions` are those it has, as far as anybody has said; `taken` those that another member
    (the value) was assigned since without a word of this one. The state is

    - `open`: it has an open circuit;
    - `closed`: it has partitions, and none is stopped;
    - `idle`: it has said that it has none;
    - `silent`: all it had went to others, and it has not said a word about it: it is killed, stuck
      or cut off, and a journal cannot tell which;
    - `stopped`: it has said so; `left_group` is false where its partitions wait for its return.

    `process` is where it runs, if it has said so.

    A member to which nothing happens says nothing: `last_word_ms` may be long ago and all well.
    """

    member: str
    instance: str
    state: MemberState
    since_ms: int
    last_word_ms: int
    partitions: tuple[Partition, ...]
    taken: Mapping[Partition, str]
    left_group: bool | None
    lives: int
    missing: int
    process: Process | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """How often, in the entries that were read."""

    entries: int = 0
    letters: int = 0
    letter_failures: int = 0
    recoveries: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group. `missing` is how many events are not in the journal, though later ones are."""

    group: str
    members: tuple[Member, ...]
    circuits: tuple[OpenCircuit, ...]
    last_events: tuple[Entry, ...]
    counts: Counts
    missing: int

    def of(self, member: str) -> Iterator[OpenCircuit]:
        """The open circuits of this member."""
        return (circuit for circuit in self.circuits if circuit.member == member)
