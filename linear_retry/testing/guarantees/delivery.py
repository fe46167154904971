"""Delivery: in order, nothing lost, no needless duplicates."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping

from linear_retry import events
from linear_retry.records.runs import Runs
from linear_retry.scope import Partition, Place, Scope
from linear_retry.testing.event_log import (
    AttemptFinished,
    AttemptStarted,
    Committed,
    Crashed,
    Entry,
    EventEmitted,
)
from linear_retry.testing.guarantees.done import Done
from linear_retry.testing.guarantees.guarantee import Guarantee
from linear_retry.testing.guarantees.lanes import Keys, Lanes

_SHOWN_OFFSETS = 10
_SHOWN_FROM_THE_FIRST = 1_000
"""For this many messages done last, the entry is kept, to start a violation's excerpt."""


class InOrder(Guarantee):
    """A message is attempted only when every visible one before it in its partition is done.

    With `keys`: before it with its key.
    """

    def __init__(
        self, visible: Mapping[Partition, Iterable[int]], keys: Keys | None = None
    ) -> None:
        """`visible`: the offsets that a reader finds, or would have found before retention."""
        super().__init__()
        self._lanes = Lanes(visible, keys)
        self._first_undone: dict[Hashable, int] = defaultdict(int)
        self._last: dict[Hashable, AttemptStarted] = {}
        self._done = Done()

    def feed(self, entry: Entry) -> None:
        self._done.feed(entry)
        if not isinstance(entry, AttemptStarted):
            return
        partition, offset = entry.place[:2], entry.place[2]
        lane = self._lanes.of(entry.place)
        before = self._next_undone(lane, partition)
        if before is not None and before < offset:
            text = f"{entry.place} was attempted before {before} was done"
            self._violate(text, self._last.get(lane), entry, partition=partition)
        self._last[lane] = entry

    def _next_undone(self, lane: Hashable, partition: Partition) -> int | None:
        visible, done = self._lanes.offsets.get(lane, []), self._done.in_partition(partition)
        index = self._first_undone[lane]
        while index < len(visible) and visible[index] in done:
            index += 1
        self._first_undone[lane] = index
        return visible[index] if index < len(visible) else None


class OneAtATime(Guarantee):
    """A member attempts one message of a partition at a time; with `keys`, one of a key.

    So too where a partition is lost while its handler runs, and returns.
    """

    def __init__(self, keys: Keys | None = None) -> None:
        super().__init__()
        self._lanes = Lanes(keys=keys)
        self._running: dict[tuple[str, Hashable], AttemptStarted] = {}

    def feed(self, entry: Entry) -> None:
        match entry:
            case AttemptStarted(_, member, place):
                lane = member, self._lanes.of(place)
                before = self._running.get(lane)
                if before is not None:
                    text = f"{place} was attempted by {member} beside {before.place}"
                    self._violate(text, before, entry, member=member, partition=place[:2])
                self._running[lane] = entry
            case AttemptFinished(_, member, place):
                self._running.pop((member, self._lanes.of(place)), None)
            case Crashed(_, member):
                for lane in [lane for lane in self._running if lane[0] == member]:
                    del self._running[lane]


class NothingLost(Guarantee):
    """In the end every visible message is done and committed.

    Check it once the last fault is long past and the last `retry_at` has come. Done messages are
    handled, dead-lettered, sent to a retry topic, skipped by `on_permanent="skip"`, or passed over;
    or removed by retention, if the consumer reported that (`DataLost`).
    """

    def __init__(self, visible: Mapping[Partition, Iterable[int]]) -> None:
        """`visible`: the offsets that a reader finds, or would have found before retention."""
        super().__init__()
        self._visible = {partition: sorted(offsets) for partition, offsets in visible.items()}
        self._done = Done()
        self._committed: dict[Partition, int] = {}
        self._last: dict[Partition, Entry] = {}

    def feed(self, entry: Entry) -> None:
        self._done.feed(entry)
        match entry:
            case AttemptStarted() | AttemptFinished():
                self._last[entry.place[:2]] = entry
            case Committed():
                self._committed.update(entry.offsets)
                self._last.update(dict.fromkeys(entry.offsets, entry))

    def finish(self) -> None:
        for partition, visible in self._visible.items():
            done = self._done.in_partition(partition)
            undone = [offset for offset in visible if offset not in done]
            committed = self._committed.get(partition, 0)
            if undone:
                self._report(
                    partition,
                    f"never done: {undone[:_SHOWN_OFFSETS]} ({len(undone)} in all)",
                )
            elif visible and committed <= visible[-1]:
                self._report(partition, f"done up to {visible[-1]}, committed up to {committed}")

    def _report(self, partition: Partition, what: str) -> None:
        self._violate(
            f"{Scope(*partition)}: {what}", None, self._last.get(partition), partition=partition
        )


class BoundedDuplicates(Guarantee):
    """A message that is done is attempted again only if its partition changed hands.

    Or if the member crashed: its successor has another name. The same holds for those that leave
    the line: for dead letters and retry topics.
    """

    def __init__(self) -> None:
        super().__init__()
        self._done: dict[str, dict[Partition, Runs]] = defaultdict(lambda: defaultdict(Runs))
        self._shown: dict[tuple[str, Place], Entry] = {}

    def feed(self, entry: Entry) -> None:
        match entry:
            case AttemptStarted(_, member, place):
                self._check_duplicate(entry, place, "was attempted again, though done")
            case AttemptFinished(_, member, place, "done"):
                self._add(entry, place)
            case EventEmitted(_, _, events.DeadLettered() as event):
                self._left(entry, event.place, "has a dead letter")
            case EventEmitted(_, _, events.SentToRetry() as event):
                self._left(entry, event.place, "was sent to retry")
            case EventEmitted(_, _, events.HandedOver() as event):
                self._left(entry, event.place, "was handed over")
            case EventEmitted(_, _, events.ReturnedToSource() as event):
                self._left(entry, event.place, "was returned")
            case EventEmitted(
                _, member, events.Revoked() | events.Lost() | events.Assigned() as event
            ):
                self._forget(member, event.partitions)
            case EventEmitted(_, member, events.HandlerTooSlow()):
                self._done[member].clear()

    def _left(self, entry: EventEmitted, place: Place, what: str) -> None:
        self._check_duplicate(entry, place, f"{what}, though done")
        self._add(entry, place)

    def _check_duplicate(
        self, entry: AttemptStarted | EventEmitted, place: Place, what: str
    ) -> None:
        if place[2] in self._done[entry.member][place[:2]]:
            before = self._shown.get((entry.member, place))
            text = f"{place} {what} in this ownership by {entry.member}"
            self._violate(text, before, entry, member=entry.member, partition=place[:2])

    def _add(self, entry: Entry, place: Place) -> None:
        self._done[entry.member][place[:2]].add(place[2])
        self._shown[entry.member, place] = entry
        if len(self._shown) > _SHOWN_FROM_THE_FIRST:
            del self._shown[next(iter(self._shown))]

    def _forget(self, member: str, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            self._done[member].pop(partition, None)
