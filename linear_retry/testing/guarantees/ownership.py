"""Ownership: nothing is attempted or committed that another member may own."""

from collections import defaultdict

from linear_retry import events
from linear_retry.scope import Partition
from linear_retry.testing.event_log import (
    AttemptStarted,
    Committed,
    Crashed,
    Entry,
    EventEmitted,
)
from linear_retry.testing.guarantees.guarantee import Guarantee


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
