"""What do entries of a journal, read in any order of their partitions, add up to?"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import TypeAlias

from linear_retry import events as e
from linear_retry.group_view import (
    Counts,
    GroupView,
    Member,
    MemberState,
    OpenCircuit,
    Place,
    Why,
)
from linear_retry.journal_entry import Entry, Unreadable
from linear_retry.scope import Partition, Scope

EVENTS_KEPT = 100

_Opening: TypeAlias = e.CircuitOpened | e.ProbeFailed | e.DeadLetterFailed | e.LimitReached
_Held: TypeAlias = _Opening | e.RetriedNow
_Latest: TypeAlias = Mapping[Partition, list[tuple[int, str, str]]]
"""When, which member, which instance."""

_OPENING = (e.CircuitOpened, e.ProbeFailed, e.DeadLetterFailed, e.LimitReached)
_HELD = (*_OPENING, e.RetriedNow)
_WHY: dict[type[object], Why] = {e.DeadLetterFailed: "letter", e.LimitReached: "limit"}


class JournalFold:
    """Takes entries in and tells how each group stands. It has no clock.

    Entries that are there twice count once. Those of one key must come in their order, as they do
    from one partition; otherwise any order gives the same view. `unreadable` counts the records
    that are no entries, `newer` those that a later release has written, `trouble` is the last
    reason of either.
    """

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self.unreadable = 0
        self.newer = 0
        self.trouble = ""

    def take(self, found: Entry | Unreadable) -> bool:
        """Whether it is an entry that was not there yet."""
        if isinstance(found, Unreadable):
            self.newer += found.is_newer
            self.unreadable += not found.is_newer
            self.trouble = found.reason
            return False
        return self._groups.setdefault(found.group, _Group(found.group)).take(found)

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that have said something, by name."""
        return tuple(sorted(self._groups))

    def view(self, group: str) -> GroupView:
        """How it stands; empty where it has said nothing."""
        return self._groups.get(group, _Group(group)).view()


class _Group:
    """What is known of one group."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lives: dict[str, _Life] = {}
        self._last: list[Entry] = []
        self._counts: Counter[str] = Counter()

    def take(self, entry: Entry) -> bool:
        life = self._lives.get(entry.instance)
        if life is None:
            life = self._lives[entry.instance] = _Life(entry.member, entry.instance, entry.at_ms)
        if not life.take(entry):
            return False
        self._last.append(entry)
        if len(self._last) >= 2 * EVENTS_KEPT:
            self._last = self._sorted()
        self._counts["entries"] += 1
        if (name := _counted(entry.event)) is not None:
            self._counts[name] += 1
        return True

    def view(self) -> GroupView:
        latest = self._latest()
        members, circuits = [], []
        for life, count in self._newest():
            taken = life.taken(latest)
            open_ones = [] if life.stopped is not None else list(life.open_circuits(taken))
            members.append(life.member_view(taken, count, is_open=bool(open_ones)))
            circuits += open_ones
        return GroupView(
            self._name,
            tuple(sorted(members, key=lambda one: (one.member, one.instance))),
            tuple(sorted(circuits, key=lambda one: (one.since_ms, one.member, str(one.scope)))),
            tuple(self._sorted()),
            Counts(**self._counts),
            sum(life.missing for life in self._lives.values()),
        )

    def _sorted(self) -> list[Entry]:
        order = sorted(self._last, key=lambda one: (one.at_ms, one.instance, one.sequence))
        return order[-EVENTS_KEPT:]

    def _newest(self) -> list[tuple[_Life, int]]:
        """Of each member its newest life, and how many there were: a static one takes over."""
        newest: dict[str, _Life] = {}
        counts: Counter[str] = Counter()
        for life in self._lives.values():
            counts[life.member] += 1
            other = newest.get(life.member)
            if other is None or (other.first_ms, other.instance) < (life.first_ms, life.instance):
                newest[life.member] = life
        return [(life, counts[life.member]) for life in newest.values()]

    def _latest(self) -> _Latest:
        """Of each partition the two lives that were assigned it last: one, and another."""
        found: dict[Partition, list[tuple[int, str, str]]] = {}
        for life in self._lives.values():
            for partition, ownership in life.ownerships.items():
                assigned = ownership.assigned_ms, life.member, life.instance
                found.setdefault(partition, []).append(assigned)
        return {partition: sorted(those)[-2:] for partition, those in found.items()}


@dataclass(slots=True)
class _Ownership:
    """When a life last said that a partition is its, and that it is not: by number, and by time."""

    claimed: int = 0
    claimed_ms: int = -1
    assigned_ms: int = -1
    gone: int = 0

    @property
    def is_there(self) -> bool:
        return self.claimed > self.gone


@dataclass(slots=True)
class _Life:
    """What one instance has said."""

    member: str
    instance: str
    first_ms: int
    last_ms: int = -1
    stopped: e.Stopped | None = None
    ownerships: dict[Partition, _Ownership] = field(default_factory=dict)
    _circuits: dict[Scope, tuple[int, OpenCircuit | None]] = field(default_factory=dict)
    _numbers: _Numbers = field(default_factory=lambda: _Numbers())

    def take(self, entry: Entry) -> bool:
        if not self._numbers.add(entry.sequence):
            return False
        self.first_ms = min(self.first_ms, entry.at_ms)
        self.last_ms = max(self.last_ms, entry.at_ms)
        match entry.event:
            case e.Assigned(partitions):
                for partition in partitions:
                    self._claim(partition, entry, is_assigned=True)
            case e.Revoked(partitions) | e.Lost(partitions):
                for partition in partitions:
                    ownership = self._ownership(partition)
                    ownership.gone = max(ownership.gone, entry.sequence)
            case e.CircuitClosed(scope):
                self._put(scope, entry.sequence, None)
            case e.Stopped() as stopped:
                self.stopped = stopped
            case event if isinstance(event, _HELD):
                self._claim((event.topic, event.partition), entry, is_assigned=False)
                self._put(event.scope, entry.sequence, self._opened(entry, event))
        return True

    @property
    def missing(self) -> int:
        return self._numbers.missing

    def taken(self, latest: _Latest) -> dict[Partition, str]:
        """Its partitions that others were assigned since its last word about them."""
        return {
            partition: member
            for partition, own in self.ownerships.items()
            if own.is_there
            for assigned_ms, member, instance in latest[partition]
            if instance != self.instance and assigned_ms > own.claimed_ms
        }

    def open_circuits(self, taken: Mapping[Partition, str]) -> Iterator[OpenCircuit]:
        """Those over a partition that it has."""
        here = [p for p, one in self.ownerships.items() if one.is_there and p not in taken]
        for scope, (number, circuit) in self._circuits.items():
            if circuit is None or not any(map(scope.covers, here)):
                continue
            held = circuit.held
            place = ("", -1) if held is None else (held.topic, held.partition)
            is_held = place in here and self.ownerships[place].gone < number
            yield circuit if is_held else replace(circuit, held=None)

    def member_view(self, taken: dict[Partition, str], lives: int, *, is_open: bool) -> Member:
        own = [partition for partition, one in self.ownerships.items() if one.is_there]
        here = tuple(sorted(partition for partition in own if partition not in taken))
        return Member(
            self.member,
            self.instance,
            self._state(here, taken, is_open=is_open),
            self.first_ms,
            self.last_ms,
            here,
            MappingProxyType(dict(sorted(taken.items()))),
            None if self.stopped is None else self.stopped.left_group,
            lives,
            self.missing,
        )

    def _state(
        self, here: tuple[Partition, ...], taken: Mapping[Partition, str], *, is_open: bool
    ) -> MemberState:
        if self.stopped is not None:
            return "stopped"
        if is_open:
            return "open"
        if here:
            return "closed"
        return "silent" if taken else "idle"

    def _ownership(self, partition: Partition) -> _Ownership:
        return self.ownerships.setdefault(partition, _Ownership())

    def _claim(self, partition: Partition, entry: Entry, *, is_assigned: bool) -> None:
        ownership = self._ownership(partition)
        ownership.claimed = max(ownership.claimed, entry.sequence)
        ownership.claimed_ms = max(ownership.claimed_ms, entry.at_ms)
        if is_assigned:
            ownership.assigned_ms = max(ownership.assigned_ms, entry.at_ms)

    def _put(self, scope: Scope, number: int, circuit: OpenCircuit | None) -> None:
        last, _ = self._circuits.get(scope, (0, None))
        if number > last:
            self._circuits[scope] = number, circuit

    def _opened(self, entry: Entry, event: _Held) -> OpenCircuit:
        """The circuit as it is after this word about it."""
        _, before = self._circuits.get(event.scope, (0, None))
        known = None if before is None else before.failures
        retried = isinstance(event, e.RetriedNow)
        return OpenCircuit(
            self.member,
            self.instance,
            event.scope,
            Place(event.topic, event.partition, event.offset),
            _WHY.get(type(event), "failed") if before is None or not retried else before.why,
            (before.error if before else "") if isinstance(event, e.RetriedNow) else event.error,
            known if isinstance(event, e.DeadLetterFailed) else event.failures,
            event.sends if isinstance(event, e.DeadLetterFailed) else 0,
            entry.at_ms if before is None else before.since_ms,
            _retry_at_ms(entry, event),
            entry.at_ms if retried else None,
            entry.at_ms,
        )


class _Numbers:
    """Which numbers of a life were seen: runs of them, for there are few gaps."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def add(self, number: int) -> bool:
        """Whether it is new."""
        at = bisect_right(self._firsts, number)
        if at and number <= self._lasts[at - 1]:
            return False
        follows = at > 0 and self._lasts[at - 1] == number - 1
        precedes = at < len(self._firsts) and self._firsts[at] == number + 1
        if follows:
            self._lasts[at - 1] = self._lasts.pop(at) if precedes else number
            if precedes:
                del self._firsts[at]
        elif precedes:
            self._firsts[at] = number
        else:
            self._firsts.insert(at, number)
            self._lasts.insert(at, number)
        return True

    @property
    def missing(self) -> int:
        """How many are between the first and the last, and were not seen."""
        return sum(
            first - last - 1 for last, first in zip(self._lasts[:-1], self._firsts[1:], strict=True)
        )


def _counted(event: e.Event) -> str | None:
    match event:
        case e.DeadLettered():
            return "letters"
        case e.DeadLetterFailed():
            return "letter_failures"
        case e.Skipped():
            return "skipped"
        case e.CircuitClosed(outcome="recovered"):
            return "recoveries"
        case _:
            return None


def _retry_at_ms(entry: Entry, event: _Held) -> int:
    if isinstance(event, e.RetriedNow):
        return entry.at_ms + round(event.early_s * 1000)
    return _ms(event.retry_at)


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
