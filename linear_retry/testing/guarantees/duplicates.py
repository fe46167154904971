"""Was a message handled again without need?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from linear_retry import events
from linear_retry.scope import Partition
from linear_retry.testing.event_log import Begun, Ended, Entry, Place, Said, shown
from linear_retry.testing.guarantees.done import place_of
from linear_retry.testing.guarantees.guarantee import Guarantee


class BoundedDuplicates(Guarantee):
    """A message that is done is attempted again only where its partition has changed hands.

    Or where the member has crashed: what comes after has another name. The same of dead letters.
    """

    def __init__(self) -> None:
        super().__init__()
        self._done: dict[str, dict[Place, Entry]] = defaultdict(dict)

    def feed(self, entry: Entry) -> None:
        match entry:
            case Begun(_, member, place):
                self._not_again(entry, place, "was attempted again, though done")
            case Ended(_, member, place, "done"):
                self._done[member][place] = entry
            case Said(_, member, events.DeadLettered() as event):
                self._not_again(entry, place_of(event), "has a dead letter, though done")
                self._done[member][place_of(event)] = entry
            case Said(_, member, events.Revoked() | events.Lost() | events.Assigned() as event):
                self._forget(member, event.partitions)
            case Said(_, member, events.HandlerTooSlow()):
                self._done[member].clear()

    def _not_again(self, entry: Begun | Said, place: Place, what: str) -> None:
        before = self._done[entry.member].get(place)
        if before is not None:
            text = f"{shown(place)} {what} in this ownership by {entry.member}"
            self._break(text, before, entry, member=entry.member, partition=place[:2])

    def _forget(self, member: str, partitions: Iterable[Partition]) -> None:
        gone = {*partitions}
        if gone:
            done = self._done[member]
            self._done[member] = {p: entry for p, entry in done.items() if p[:2] not in gone}
