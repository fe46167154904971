"""What is in memory of one partition: undone messages in lanes, without those dropped meanwhile."""

import heapq
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import offset_of, size_bytes
from linear_retry.scope import Scope


@dataclass(slots=True)
class Gap:
    """Where `count` later messages of a lane were dropped: none is here from `next` to `last`."""

    next: int
    last: int
    count: int = 0


class Lane:
    """The messages of one lane in their order; `in_hand` of them, the first, are with a worker.

    With a `gap` what follows is to be fetched again. `passed_over` were not to be attempted.
    """

    __slots__ = ("gap", "in_hand", "messages", "passed_over")

    def __init__(self) -> None:
        self.messages: deque[Message] = deque()
        self.in_hand = 0
        self.gap: Gap | None = None
        self.passed_over: frozenset[int] = frozenset()

    @property
    def at_hand(self) -> int:
        """How many may be handed over. The last before a gap stays: from there on it is undone."""
        return len(self.messages) - (self.gap is not None)

    @property
    def is_ready(self) -> bool:
        return not self.in_hand and self.at_hand > 0


class InMemory:
    """What was read of one partition up to `last`: `undone`, with lanes and sizes, by offset.

    Everything below `frontier` is done but that, and what the lanes' gaps are about. Those that are
    in none of the `lanes` are `out` of them: not sorted yet, or held by a circuit.
    """

    __slots__ = (
        "_fetched",
        "frontier",
        "lanes",
        "last",
        "out",
        "size_bytes",
        "undone",
    )

    def __init__(self, first: int) -> None:
        self.undone: OrderedDict[int, tuple[Message, Scope, int]] = OrderedDict()
        self.lanes: dict[Scope, Lane] = {}
        self.out: set[int] = set()
        self.size_bytes = 0
        self.frontier = first
        self.last = first
        self._fetched: list[int] = []
        """A heap: those that were fetched again are not in their place in `undone`."""

    def lane(self, offset: int) -> Scope:
        return self.undone[offset][1]

    def ready_at(self, offset: int) -> Scope | None:
        """Returns the lane that begins at this offset, if it may be handed over."""
        kept = self.undone.get(offset)
        lane = None if kept is None else self.lanes.get(kept[1])
        if kept is None or lane is None or not lane.is_ready:
            return None
        return kept[1] if offset_of(lane.messages[0]) == offset else None

    @property
    def base(self) -> int:
        """The first offset that is not done."""
        first = next(iter(self.undone), self.last + 1)
        if not self._fetched:  # nearly always, and this is asked for each message
            return first
        while self._fetched and self._fetched[0] not in self.undone:
            heapq.heappop(self._fetched)
        return min([first, *self._fetched[:1]])

    def base_once_done(self, offset: int) -> int:
        """The first that will not be done once the message at `offset` is."""
        if self.base != offset:
            return self.base
        first = next((each for each in self.undone if each != offset), self.last + 1)
        return min([first, *(each for each in self._fetched if each in self.undone)])

    def firsts(self, below: int, done: int | None = None) -> dict[Scope, Message]:
        """The first message of each lane that has one below this offset, but for what is `done`."""
        found: dict[Scope, Message] = {}
        for at in sorted(at for at in self.out if at < below and at != done):
            found.setdefault(self.lane(at), self.undone[at][0])
        for scope, lane in self.lanes.items():
            first = lane.messages[0]
            if offset_of(first) < below:
                found.setdefault(scope, first)  # what is held comes before those in its lane
        return found

    def size_of(self, messages: Iterable[Message]) -> int:
        """The size in bytes of some in memory; not kept for each lane, as it is rarely asked."""
        return sum(self.undone[offset_of(each)][2] for each in messages)

    def of(self, scope: Scope, held: Message | None) -> tuple[int, int]:
        """How many messages of a lane there are, and their size in bytes; `held` is one of them."""
        lane = self.lanes.get(scope)
        found = [] if lane is None else [*lane.messages]
        if held is not None and offset_of(held) in self.undone:
            found.append(held)
        return len(found), self.size_of(found)

    def waiting(self, scope: Scope) -> int:
        """How many messages of a lane wait behind the one that is held. For any thread."""
        lane = self.lanes.get(scope)
        return 0 if lane is None else len(lane.messages) + _dropped(lane)

    def done_above(self, base: int) -> int:
        """How many offsets above the first undone one are done. For any thread."""
        dropped = sum(map(_dropped, tuple(self.lanes.values())))
        return max(self.last + 1 - base - len(self.undone) - dropped, 0)

    # -- what happens ----------------------------------------------------------------------

    def keep(self, message: Message, scope: Scope) -> None:
        """Keeps one that has arrived, and is in no lane yet."""
        self.last = offset_of(message)
        self._keep(message, scope)
        self.out.add(self.last)

    def append(self, message: Message, scope: Scope) -> Lane | None:
        """Appends a message to its lane, which it returns; None: it is dropped."""
        offset = offset_of(message)
        lane = self.lanes.get(scope)
        if lane is None:
            lane = self.lanes[scope] = Lane()
        self.out.discard(offset)
        gap = lane.gap
        if gap is not None and offset >= gap.next:  # one before it is not here
            self._drop(offset)
            gap.last = max(offset, gap.last)
            gap.count += 1
            return None
        lane.messages.append(message)
        return lane

    def take_out(self, scope: Scope, count: int) -> None:
        """Takes the first messages out of their lane."""
        lane = self.lanes[scope]
        for _ in range(count):
            self.out.add(offset_of(lane.messages.popleft()))
        if not lane.messages:
            del self.lanes[scope]

    def done(self, offset: int) -> None:
        self._drop(offset)
        self.out.discard(offset)
        self.frontier = max(self.frontier, offset + 1)

    def pass_over(self, offset: int) -> None:
        """Notes that a message which arrived is not to be attempted, fetched again neither."""
        lane = self.lanes.get(self.lane(offset))
        if lane is not None:
            lane.passed_over |= {offset}
        self.done(offset)

    def cut(self, scope: Scope, keep: int) -> None:
        """Drops all but the first `keep` messages of a lane, one at least."""
        lane, dropped = self.lanes[scope], list[int]()
        while len(lane.messages) > max(keep, 1):
            dropped.append(offset_of(lane.messages.pop()))
            self._drop(dropped[-1])
        if dropped:
            before = lane.gap or Gap(dropped[-1], dropped[0])
            lane.gap = Gap(dropped[-1], before.last, before.count + len(dropped))

    def fill(self, scope: Scope, messages: Iterable[Message], end: int) -> bool:
        """Appends those of a lane that were fetched again, of all that are before `end`.

        Returns whether none is missing any more.
        """
        lane = self.lanes[scope]
        gap = lane.gap
        if gap is None:
            raise AssertionError("nothing of this lane was dropped: please report it")
        for message in messages:
            offset = offset_of(message)
            if gap.next <= offset <= gap.last and offset not in lane.passed_over:
                self._keep(message, scope)
                heapq.heappush(self._fetched, offset)
                lane.messages.append(message)
                gap.count -= 1
        gap.next = end
        if gap.next > gap.last:
            lane.gap = None
        first = offset_of(lane.messages[0])
        lane.passed_over = frozenset(each for each in lane.passed_over if each > first)
        return lane.gap is None

    def sort_again(self, stay_out: Collection[int]) -> None:
        """Puts all into their lanes again, but those that are to `stay_out` of them."""
        before, self.lanes, self.out = self.lanes, {}, {*self.undone}
        for scope, lane in before.items():
            again = self.lanes[scope] = Lane()
            again.in_hand, again.gap, again.passed_over = lane.in_hand, lane.gap, lane.passed_over
        for offset in sorted(self.out.difference(stay_out)):
            message, scope, _ = self.undone[offset]
            self.append(message, scope)
        self.lanes = {scope: lane for scope, lane in self.lanes.items() if lane.messages}

    # -- inside ----------------------------------------------------------------------------

    def _keep(self, message: Message, scope: Scope) -> None:
        size = size_bytes(message)
        self.undone[offset_of(message)] = message, scope, size
        self.size_bytes += size

    def _drop(self, offset: int) -> None:
        self.size_bytes -= self.undone.pop(offset)[2]


def _dropped(lane: Lane) -> int:
    gap = lane.gap
    return 0 if gap is None else gap.count
