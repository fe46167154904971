"""The state of groups, computed from the entries of a journal in any order."""

from __future__ import annotations

from collections import Counter

from linear_retry import events as e
from linear_retry.journal.entry import Entry, Unreadable
from linear_retry.journal.group_view import Counts, GroupView, Member
from linear_retry.journal.instance_state import InstanceState, Latest, to_ms
from linear_retry.scope import Partition

EVENTS_KEPT = 100


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
