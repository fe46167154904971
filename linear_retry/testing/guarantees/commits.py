"""Commits: only handled messages are committed, and only by the owner of their partition."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping

from linear_retry import events
from linear_retry.scope import Partition, Scope
from linear_retry.testing.event_log import (
    AttemptFinished,
    AttemptStarted,
    Committed,
    Crashed,
    Entry,
    EventEmitted,
)
from linear_retry.testing.guarantees.done import Done, runs_done_by
from linear_retry.testing.guarantees.guarantee import Guarantee


class CommittedOnlyDone(Guarantee):
    """Every visible message below a committed offset is done, and committed offsets never go back.

    Acknowledged commits of one member are compared with each other, and lookups with lookups, as an
    acknowledgement may arrive late. A member's commits are compared with those of others from its
    assignment on: it must not commit less than was committed before, unless that may be a late
    acknowledgement from an earlier assignment. Nothing is compared with commits made while two
    members had the partition: each started where the other had not been yet.
    """

    def __init__(self, visible: Mapping[Partition, Iterable[int]]) -> None:
        """`visible`: the offsets that a reader finds, or would have found before retention."""
        super().__init__()
        self._visible = {partition: sorted(offsets) for partition, offsets in visible.items()}
        self._checked: dict[Partition, int] = {}
        self._before: dict[tuple[str, Partition], tuple[int, Committed]] = {}
        self._highest: dict[Partition, tuple[int, Committed]] = {}
        self._at_start: dict[tuple[str, Partition], tuple[int, Committed]] = {}
        self._reached: dict[tuple[str, Partition], int] = {}
        self._earlier: dict[tuple[str, Partition], int] = {}
        self._owners: defaultdict[Partition, set[str]] = defaultdict(set)
        self._last: dict[Partition, Entry] = {}
        self._done = Done()

    def feed(self, entry: Entry) -> None:
        self._done.feed(entry)
        for partition, _, end in runs_done_by(entry):
            self._reached[entry.member, partition] = end
        match entry:
            case AttemptStarted() | AttemptFinished():
                self._last[entry.place[:2]] = entry
            case EventEmitted(_, member, events.Assigned(partitions)):
                self._assign(member, partitions)
            case EventEmitted(_, member, events.Revoked() | events.Lost() as event):
                self._revoke(member, event.partitions)
            case EventEmitted(_, member, events.Stopped()) | Crashed(_, member):
                self._revoke(member, self._owners)
            case Committed():
                for partition, next_offset in entry.offsets.items():
                    self._check_done(partition, next_offset, entry)
                    self._check_monotonic(partition, next_offset, entry)
                    self._check_other_members(partition, next_offset, entry)

    def _assign(self, member: str, partitions: Iterable[Partition]) -> None:
        """Notes what anyone had committed by then, and what this member may have sent by then."""
        for partition in partitions:
            key = member, partition
            if partition in self._highest:
                self._at_start[key] = self._highest[partition]
            if key in self._reached:
                self._earlier[key] = max(self._reached[key], self._earlier.get(key, 0))
            self._owners[partition].add(member)
            if len(self._owners[partition]) > 1:
                self._highest.pop(partition, None)

    def _revoke(self, member: str, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            self._owners[partition].discard(member)

    def _check_done(self, partition: Partition, next_offset: int, entry: Committed) -> None:
        visible, done = self._visible.get(partition, []), self._done.in_partition(partition)
        begin, end = self._checked.get(partition, 0), bisect_left(visible, next_offset)
        for offset in visible[begin:end]:
            if offset not in done:
                text = f"{Scope(*partition)} is committed up to {next_offset}, {offset} is not done"
                self._violate(text, self._last.get(partition), entry, partition=partition)
        self._checked[partition] = max(begin, end)

    def _check_monotonic(self, partition: Partition, next_offset: int, entry: Committed) -> None:
        before = self._before.get((entry.member, partition))
        if before is not None and next_offset < before[0]:
            text = f"{Scope(*partition)} was committed up to {before[0]}, then up to {next_offset}"
            self._violate(text, before[1], entry, partition=partition)
        self._before[entry.member, partition] = next_offset, entry

    def _check_other_members(
        self, partition: Partition, next_offset: int, entry: Committed
    ) -> None:
        key = entry.member, partition
        before = self._at_start.get(key)
        is_new = next_offset > self._earlier.get(key, -1)
        if before is not None and is_new and next_offset < before[0]:
            whose = f" by {before[1].member}" * bool(before[1].member)
            text = f"{Scope(*partition)} was committed up to {before[0]}{whose}, then by "
            text += f"{entry.member}, who was given it after that, up to {next_offset}"
            self._violate(text, before[1], entry, partition=partition)
        owners = self._owners[partition]
        is_shared = len(owners) > 1 or (entry.member and owners - {entry.member})
        if not is_shared and next_offset >= self._highest.get(partition, (0,))[0]:
            self._highest[partition] = next_offset, entry


class OnlyWhileOwned(Guarantee):
    """A member attempts only messages of partitions that it was assigned and that were not revoked.

    Acknowledged commits (`Committed` with its name) are of partitions that it was assigned once: an
    answer may come after the partition has gone.
    """

    def __init__(self) -> None:
        super().__init__()
        self._owned: dict[str, set[Partition]] = defaultdict(set)
        self._ever_owned: dict[str, set[Partition]] = defaultdict(set)
        self._ended_by: dict[tuple[str, Partition], EventEmitted | Crashed] = {}

    def feed(self, entry: Entry) -> None:
        match entry:
            case AttemptStarted(_, member, place):
                if place[:2] not in self._owned[member]:
                    self._report(entry, f"{place} was attempted", place[:2])
            case EventEmitted(_, member, events.Assigned(partitions)):
                self._owned[member] |= {*partitions}
                self._ever_owned[member] |= {*partitions}
            case EventEmitted(_, member, events.Revoked() | events.Lost() as event):
                self._revoke(entry, {*event.partitions})
            case EventEmitted(_, member, events.Stopped()) | Crashed(_, member):
                self._revoke(entry, {*self._owned[member]})
            case Committed(_, str(member), offsets) if member:
                for partition in offsets.keys() - self._ever_owned[member]:
                    self._report(entry, f"an offset of {partition} was committed", partition)

    def _revoke(self, said: EventEmitted | Crashed, partitions: set[Partition]) -> None:
        self._owned[said.member] -= partitions
        self._ended_by.update(dict.fromkeys(((said.member, p) for p in partitions), said))

    def _report(self, entry: AttemptStarted | Committed, what: str, partition: Partition) -> None:
        first = self._ended_by.get((entry.member, partition))
        text = f"{what} by {entry.member}, which does not own it"
        self._violate(text, first, entry, member=entry.member, partition=partition)
