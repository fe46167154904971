"""Was a message handled again without need?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from linear_retry import events
from linear_retry.scope import Partition
from linear_retry.testing.event_log import Begun, Ended, Entry, Place, Said, shown
from linear_retry.testing.guarantees.done import place_of
from linear_retry.testing.guarantees.guarantee import Guarantee, all_but
from linear_retry.testing.guarantees.runs import Runs

_SHOWN_FROM_THE_FIRST = 1_000
"""Of so many messages that were done last it is kept by which entry, for the story's beginning."""


class BoundedDuplicates(Guarantee):
    """A message that is done is attempted again only where its partition has changed hands.

    Or where the member has crashed: what comes after has another name. The same of dead letters.
    """

    _passes_over = all_but(
        Begun,
        Ended,
        events.DeadLettered,
        events.Assigned,
        events.Revoked,
        events.Lost,
        events.HandlerTooSlow,
    )

    def __init__(self) -> None:
        super().__init__()
        self._done: dict[str, dict[Partition, Runs]] = defaultdict(lambda: defaultdict(Runs))
        self._shown: dict[tuple[str, Place], Entry] = {}

    def feed(self, entry: Entry) -> None:
        match entry:
            case Begun(_, member, place):
                self._not_again(entry, place, "was attempted again, though done")
            case Ended(_, member, place, "done"):
                self._note(entry, place)
            case Said(_, member, events.DeadLettered() as event):
                self._not_again(entry, place_of(event), "has a dead letter, though done")
                self._note(entry, place_of(event))
            case Said(_, member, events.Revoked() | events.Lost() | events.Assigned() as event):
                self._forget(member, event.partitions)
            case Said(_, member, events.HandlerTooSlow()):
                self._done[member].clear()

    def _not_again(self, entry: Begun | Said, place: Place, what: str) -> None:
        if place[2] in self._done[entry.member][place[:2]]:
            before = self._shown.get((entry.member, place))
            text = f"{shown(place)} {what} in this ownership by {entry.member}"
            self._break(text, before, entry, member=entry.member, partition=place[:2])

    def _note(self, entry: Entry, place: Place) -> None:
        self._done[entry.member][place[:2]].add(place[2])
        self._shown[entry.member, place] = entry
        if len(self._shown) > _SHOWN_FROM_THE_FIRST:
            del self._shown[next(iter(self._shown))]

    def _forget(self, member: str, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            self._done[member].pop(partition, None)
