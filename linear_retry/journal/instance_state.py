"""The state of one instance of a member, folded from its entries in any order."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import TypeAlias, get_args

from linear_retry import events as e
from linear_retry.events import WaitReason
from linear_retry.journal.entry import Entry
from linear_retry.journal.group_view import Member, MemberState, OpenCircuit
from linear_retry.records.process import Process
from linear_retry.records.runs import Runs
from linear_retry.scope import Partition, Place, Scope

Latest: TypeAlias = Mapping[Partition, list[tuple[int, str, str]]]
"""By partition, its last assignments: when, which member, which instance."""

_Held: TypeAlias = (
    e.CircuitOpened | e.ProbeFailed | e.DeadLetterFailed | e.LimitReached | e.RetriedNow
)
_HELD = get_args(_Held)
_LONGEST_S = 1e9


@dataclass(slots=True)
class Ownership:
    """When an instance last got and lost a partition, by sequence number and time."""

    claimed: int = 0
    claimed_ms: int = -1
    assigned_ms: int = -1
    gone: int = 0

    @property
    def is_there(self) -> bool:
        return self.claimed > self.gone


@dataclass(slots=True)
class InstanceState:
    """The state of one instance, from its entries."""

    member: str
    instance: str
    first_ms: int
    last_ms: int = -1
    process: Process | None = None
    stopped: e.Stopped | None = None
    ownerships: dict[Partition, Ownership] = field(default_factory=dict)
    _circuits: dict[Scope, tuple[int, OpenCircuit | None]] = field(default_factory=dict)
    _seen: Runs = field(default_factory=Runs)
    _last: int = 0
    _missing_ms: int | None = None

    def take(self, entry: Entry) -> bool:
        if entry.sequence in self._seen:
            return False
        self._seen.add(entry.sequence)
        if 0 < self._last < entry.sequence - 1:
            self._missing_ms = entry.at_ms
        self._last = max(self._last, entry.sequence)
        self.first_ms = min(self.first_ms, entry.at_ms)
        self.last_ms = max(self.last_ms, entry.at_ms)
        self.process = self.process or entry.process
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
            case e.WaitEnded(scope):
                self._end_wait(scope, entry)
            case e.Stopped() as stopped:
                self.stopped = stopped
            case event if isinstance(event, _HELD):
                self._claim((event.topic, event.partition), entry, is_assigned=False)
                self._put(event.scope, entry.sequence, self._opened(entry, event))
        return True

    @property
    def missing(self) -> int:
        return self._seen.missing

    def taken(self, latest: Latest) -> dict[Partition, str]:
        """Its partitions that others were assigned since its last entry about them."""
        return {
            partition: member
            for partition, own in self.ownerships.items()
            if own.is_there
            for assigned_ms, member, instance in latest[partition]
            if instance != self.instance and assigned_ms > own.claimed_ms
        }

    def open_circuits(self, taken: Mapping[Partition, str]) -> Iterator[OpenCircuit]:
        """Yields its open circuits over a partition that it still has."""
        here = [p for p, one in self.ownerships.items() if one.is_there and p not in taken]
        for scope, (number, circuit) in self._circuits.items():
            if circuit is None or not any(map(scope.covers, here)):
                continue
            held = circuit.held
            place = ("", -1) if held is None else (held.topic, held.partition)
            is_held = place in here and self.ownerships[place].gone < number
            held = held if is_held else None
            yield replace(circuit, held=held, process=self.process)

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
            self.process,
            self._missing_ms if self.missing else None,
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

    def _ownership(self, partition: Partition) -> Ownership:
        return self.ownerships.setdefault(partition, Ownership())

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

    def _end_wait(self, scope: Scope, entry: Entry) -> None:
        _, known = self._circuits.get(scope, (0, None))
        if known is not None:
            ended = replace(known, retried_ms=entry.at_ms, last_event_ms=entry.at_ms)
            self._put(scope, entry.sequence, ended)

    def _opened(self, entry: Entry, event: _Held) -> OpenCircuit:
        """Returns the circuit as of this entry."""
        _, before = self._circuits.get(event.scope, (0, None))
        at_ms = entry.at_ms
        known = before or OpenCircuit(self.member, self.instance, event.scope, at_ms, at_ms, at_ms)
        held = Place(event.topic, event.partition, event.offset)
        return _after(replace(known, held=held, last_event_ms=at_ms), event)


def _after(before: OpenCircuit, event: _Held) -> OpenCircuit:
    """Updates the circuit with the event, and keeps what the event does not mention."""
    match event:
        case e.RetriedNow(failures=failures):
            now_ms = before.last_event_ms
            # A garbled entry may have an infinity, which cannot be rounded.
            at_ms = now_ms + round(min(max(event.remaining_s, 0.0), _LONGEST_S) * 1000)
            return replace(before, failures=failures, retried_ms=now_ms, retry_at_ms=at_ms)
        case e.DeadLetterFailed(attempts=sends):
            known = replace(before, waits_for="letter", sends=sends)
        case _:
            reason: WaitReason = "limit" if isinstance(event, e.LimitReached) else "failed"
            known = replace(before, waits_for=reason, failures=event.failures, sends=0)
    return replace(known, error=event.error, retried_ms=None, retry_at_ms=to_ms(event.retry_at))


def to_ms(moment: datetime) -> int:
    """UTC milliseconds."""
    return round(moment.timestamp() * 1000)
