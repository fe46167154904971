"""The state of groups and of their instances, computed from entries in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from linear_retry import events as e
from linear_retry.events import WaitReason
from linear_retry.journal.entry import Entry, Process, Unreadable
from linear_retry.records.runs import Runs
from linear_retry.records.text import held_by_group_text, paused_text
from linear_retry.scope import Partition, Place, Scope

CircuitState: TypeAlias = Literal["open", "half-open"]
_GONE_MS = 600_000

MemberState: TypeAlias = Literal["open", "closed", "idle", "silent", "stopped"]

Latest: TypeAlias = Mapping[Partition, list[tuple[int, str, str]]]
"""By partition, its last assignments: when, which member, which instance."""
_Held: TypeAlias = (
    e.CircuitOpened
    | e.ProbeFailed
    | e.DeadLetterFailed
    | e.LimitReached
    | e.KeyBlocked
    | e.RetriedNow
)
_HELD = get_args(_Held)
_Key = TypeVar("_Key", bound=Hashable)
_LONGEST_S = 1e9
EVENTS_KEPT = 100


@dataclass(frozen=True, slots=True)
class OpenCircuit:
    """A circuit that is open according to its member's entries. Times are UTC milliseconds.

    `held` is None if its partition was revoked since. `failures` and `error` are from the last
    entry about it; `failures` is None if no entry has them. `retried_ms` is when an operator's
    retry started, if that was the last entry. `retry_at_ms` is None while it is blocked. `behind`
    is how many messages of a key waited behind the held one, at the last minute that was reported.
    """

    member: str
    instance: str
    scope: Scope
    since_ms: int
    retry_at_ms: int | None
    last_event_ms: int
    held: Place | None = None
    waits_for: WaitReason = "failed"
    error: str = ""
    failures: int | None = None
    sends: int = 0
    retried_ms: int | None = None
    process: Process | None = None
    behind: int = 0

    def state(self, now_ms: int) -> CircuitState:
        """`half-open` from `due_ms` on: the next attempt is in progress, or its member is gone.

        The journal shows only how the attempt ended.
        """
        return "open" if self.due_ms is None or self.due_ms > now_ms else "half-open"

    @property
    def due_ms(self) -> int | None:
        """When the next attempt starts or started; None: when an operator says so."""
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
    _pauses: dict[tuple[WaitReason, Scope], tuple[int, OpenCircuit | None]] = field(
        default_factory=dict
    )
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
            case e.PausedByHand(scope, by, reason) as paused:
                text = paused_text(by, reason)
                self._pause("pause", scope, entry, text, paused.until)
            case e.HeldByGroup(by, error, until):
                text = held_by_group_text(by, error)
                self._pause("group", Scope(), entry, text, until)
            case e.PauseEnded(scope=scope):
                _put_last(self._pauses, ("pause", scope), entry.sequence, None)
            case e.GroupHoldEnded():
                _put_last(self._pauses, ("group", Scope()), entry.sequence, None)
            case e.WaitEnded(scope):
                self._update(scope, entry, retried_ms=entry.at_ms)
            case e.WaitingBehind(scope=scope, messages=messages):
                self._update(scope, entry, behind=messages)
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
        for (_, scope), (_, pause) in self._pauses.items():
            if pause is not None and any(map(scope.concerns, here)):
                yield replace(pause, process=self.process)
        for scope, (number, circuit) in self._circuits.items():
            if circuit is None or not any(map(scope.concerns, here)):
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
        _put_last(self._circuits, scope, number, circuit)

    def _pause(
        self, waits_for: WaitReason, scope: Scope, entry: Entry, text: str, until: datetime
    ) -> None:
        _, before = self._pauses.get((waits_for, scope), (0, None))
        paused = OpenCircuit(
            self.member,
            self.instance,
            scope,
            since_ms=entry.at_ms if before is None else before.since_ms,
            retry_at_ms=to_ms(until),
            last_event_ms=entry.at_ms,
            waits_for=waits_for,
            error=text,
        )
        _put_last(self._pauses, (waits_for, scope), entry.sequence, paused)

    def _update(self, scope: Scope, entry: Entry, **changes: Any) -> None:
        """Changes a circuit that is open, as of this entry."""
        _, known = self._circuits.get(scope, (0, None))
        if known is not None:
            changed = replace(known, last_event_ms=entry.at_ms, **changes)
            self._put(scope, entry.sequence, changed)

    def _opened(self, entry: Entry, event: _Held) -> OpenCircuit:
        """Returns the circuit as of this entry."""
        _, before = self._circuits.get(event.scope, (0, None))
        at_ms = entry.at_ms
        known = before or OpenCircuit(self.member, self.instance, event.scope, at_ms, at_ms, at_ms)
        held = Place(event.topic, event.partition, event.offset)
        return _after(replace(known, held=held, last_event_ms=at_ms), event)


def _put_last(
    known: dict[_Key, tuple[int, OpenCircuit | None]],
    scope: _Key,
    number: int,
    circuit: OpenCircuit | None,
) -> None:
    """Keeps what the entry with the highest number says of this scope."""
    last, _ = known.get(scope, (0, None))
    if number > last:
        known[scope] = number, circuit


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
            known = replace(before, waits_for=_wait_reason(event), failures=event.failures, sends=0)
    at = None if isinstance(event, e.KeyBlocked) else to_ms(event.retry_at)
    return replace(known, error=event.error, retried_ms=None, retry_at_ms=at)


def _wait_reason(
    event: e.CircuitOpened | e.ProbeFailed | e.LimitReached | e.KeyBlocked,
) -> WaitReason:
    match event:
        case e.LimitReached():
            return "limit"
        case e.KeyBlocked():
            return "operator"
        case _:
            return "failed"


def to_ms(moment: datetime) -> int:
    """UTC milliseconds."""
    return round(moment.timestamp() * 1000)


class GroupStates:
    """Computes the state of each group from entries. It has no clock.

    Duplicate entries count once. Entries with the same key must come in order, as they do from one
    partition; otherwise any order gives the same view. `unreadable` counts records that are not
    entries, `trouble` is the last reason.
    """

    def __init__(self) -> None:
        self._groups: dict[str, GroupState] = {}
        self.unreadable = 0
        self.trouble = ""

    def take(self, found: Entry | Unreadable) -> bool:
        """Adds an entry; returns whether it is new."""
        if isinstance(found, Unreadable):
            self.unreadable += 1
            self.trouble = found.reason
            return False
        return self._groups.setdefault(found.group, GroupState(found.group)).take(found)

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups with entries, sorted."""
        return tuple(sorted(self._groups))

    def view(self, group: str) -> GroupView:
        """The state of the group; empty if it has no entries."""
        return self._groups.get(group, GroupState(group)).view()


class GroupState:
    """The state of one group, from its entries."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._instances: dict[str, InstanceState] = {}
        self._last: list[Entry] = []
        self._counts: Counter[str] = Counter()

    def take(self, entry: Entry) -> bool:
        state = self._instances.get(entry.instance)
        if state is None:
            state = self._instances[entry.instance] = InstanceState(
                entry.member, entry.instance, entry.at_ms
            )
        if not state.take(entry):
            return False
        self._last.append(entry)
        if len(self._last) >= 2 * EVENTS_KEPT:
            self._last = self._sorted()
        self._counts["entries"] += 1
        match entry.event:
            case e.DeadLettered():
                self._counts["letters"] += 1
            case e.DeadLetterFailed():
                self._counts["letter_failures"] += 1
            case e.SentToRetry(retry_at=retry_at):
                self._counts["retries"] += 1
                until_ms = max(self._counts["retries_until_ms"], to_ms(retry_at))
                self._counts["retries_until_ms"] = until_ms
            case e.HandedOver():
                self._counts["handed_over"] += 1
            case e.Skipped():
                self._counts["skipped"] += 1
            case e.CircuitClosed(outcome="recovered"):
                self._counts["recoveries"] += 1
        return True

    def view(self) -> GroupView:
        latest = self._latest()
        members, circuits = list[Member](), []
        for state, count in self._newest():
            taken = state.taken(latest)
            open_ones = [] if state.stopped is not None else list(state.open_circuits(taken))
            members.append(state.member_view(taken, count, is_open=bool(open_ones)))
            circuits += open_ones
        return GroupView(
            self._name,
            tuple(sorted(members, key=lambda one: (one.member, one.instance))),
            tuple(sorted(circuits, key=lambda one: (one.since_ms, one.member, str(one.scope)))),
            tuple(self._sorted()),
            Counts(**self._counts),
            sum(state.missing for state in self._instances.values()),
            self._topics(members),
        )

    def _topics(self, members: list[Member]) -> tuple[str, ...]:
        held = {topic for one in members for topic, _ in (*one.partitions, *one.taken)}
        had = (topic for state in self._instances.values() for topic, _ in state.ownerships)
        return tuple(sorted(held or set(had)))

    def _sorted(self) -> list[Entry]:
        order = sorted(self._last, key=lambda one: (one.at_ms, one.instance, one.sequence))
        return order[-EVENTS_KEPT:]

    def _newest(self) -> list[tuple[InstanceState, int]]:
        """Each member's newest instance, and how many it had: a static member may restart."""
        lives: dict[str, list[InstanceState]] = {}
        for state in sorted(self._instances.values(), key=lambda one: (one.first_ms, one.instance)):
            lives.setdefault(state.member, []).append(state)
        return [(those[-1], len(those)) for those in lives.values()]

    def _latest(self) -> Latest:
        """For each partition, the last two different instances that were assigned it."""
        found: dict[Partition, list[tuple[int, str, str]]] = {}
        for state in self._instances.values():
            for partition, ownership in state.ownerships.items():
                assigned = ownership.assigned_ms, state.member, state.instance
                found.setdefault(partition, []).append(assigned)
        return {partition: sorted(those)[-2:] for partition, those in found.items()}
