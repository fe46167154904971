"""The read-ahead of messages that are handled side by side: a queue for each lane."""

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

from linear_retry.consumer.partitions.queued_read_ahead import is_above
from linear_retry.consumer.partitions.read_ahead import (
    LARGEST_BATCH,
    Progress,
    ReadAhead,
    offset_of,
    partition_of,
)
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.consumer.messages import size_bytes
from linear_retry.retry.clock import Clock
from linear_retry.scope import Partition, Scope

LaneOf: TypeAlias = Callable[[Message], Scope]
"""Gives the lane of a message: its unit of order."""


class _Lane:
    """The messages of one lane in their order; `in_hand` of them, the first, are with a worker."""

    __slots__ = ("in_hand", "messages")

    def __init__(self) -> None:
        self.messages: deque[Message] = deque()
        self.in_hand = 0

    @property
    def is_ready(self) -> bool:
        return bool(self.messages) and not self.in_hand


class _Read:
    """What is in memory of one partition, up to `last`: `undone`, with lanes and sizes, by offset.

    Everything below `frontier` is done but that; `leader_epoch` is that of the message before it.
    Those that are in none of the `lanes` are `out` of them: not sorted yet, or held by a circuit.
    """

    __slots__ = ("frontier", "lanes", "last", "leader_epoch", "out", "size_bytes", "undone")

    def __init__(self, first: int) -> None:
        self.undone: OrderedDict[int, tuple[Message, Scope, int]] = OrderedDict()
        self.lanes: dict[Scope, _Lane] = {}
        self.out: set[int] = set()
        self.size_bytes = 0
        self.frontier = first
        self.leader_epoch: int | None = None
        self.last = first

    def lane(self, offset: int) -> Scope:
        return self.undone[offset][1]

    @property
    def base(self) -> int:
        """The first offset that is not done."""
        return next(iter(self.undone), self.last + 1)

    def firsts(self, below: int) -> dict[Scope, Message]:
        """The first message of each lane that has one below this offset."""
        found: dict[Scope, Message] = {}
        for at in sorted(at for at in self.out if at < below):
            found.setdefault(self.lane(at), self.undone[at][0])
        for scope, lane in self.lanes.items():
            first = lane.messages[0]
            if offset_of(first) < below:
                found.setdefault(scope, first)  # what is held comes before those in its lane
        return found

    def keep(self, message: Message, lane: Scope) -> None:
        size, self.last = size_bytes(message), offset_of(message)
        self.undone[self.last] = message, lane, size
        self.out.add(self.last)
        self.size_bytes += size

    def take_out(self, scope: Scope, count: int) -> None:
        """Takes the first messages out of their lane."""
        lane = self.lanes[scope]
        self.out.update(offset_of(lane.messages.popleft()) for _ in range(count))
        if not lane.messages:
            del self.lanes[scope]

    def done(self, offset: int) -> None:
        message, _, size = self.undone.pop(offset)
        self.out.discard(offset)
        self.size_bytes -= size
        if offset >= self.frontier:
            self.frontier, self.leader_epoch = offset + 1, message.leader_epoch()


class LaneReadAhead(ReadAhead):
    """A read-ahead from which the messages of each lane are handed over by themselves.

    What arrives is in `messages` until it is sorted into lanes. It knows what is done of each
    partition, in whatever order, and nothing is dropped but with its partition: a seek goes behind
    what is in memory. `is_busy`: a worker has or had something, so that a poll must not wait.
    """

    is_busy = False

    def __init__(
        self,
        lane_of: LaneOf,
        is_held: Callable[[Partition, int], object],
        client: Client,
        clock: Clock,
        epoch: Callable[[], int],
        *,
        max_poll_interval_s: float,
        session_timeout_s: float,
        most: int = 0,
    ) -> None:
        """`is_held`: whether a circuit has the message at this offset.

        `most` messages may be in memory, or more where `MOST_MESSAGES` of each partition are.
        """
        super().__init__(
            client,
            clock,
            epoch,
            max_poll_interval_s=max_poll_interval_s,
            session_timeout_s=session_timeout_s,
        )
        self.lane_of = lane_of
        self._is_held = is_held
        self._most = most
        self._read: dict[Partition, _Read] = {}
        self._ready: dict[Partition, list[tuple[int, Scope]]] = {}

    # -- lanes -----------------------------------------------------------------------------

    def sort(self, messages: Sequence[Message]) -> None:
        """Sorts the first of those that arrived into their lanes."""
        for message in messages:
            self._append(message, self._read[partition_of(message)].lane(offset_of(message)))
        del self.messages[: len(messages)]

    def next_ready(self) -> Scope | None:
        """Returns a lane with messages that no worker has; None without one.

        The partitions take turns. Of each the lane whose message has waited longest: what is done
        above messages that are not is noted beside the commit, where there is little room.
        """
        for partition, waiting in tuple(self._ready.items()):
            del self._ready[partition]
            while waiting:
                offset, scope = heapq.heappop(waiting)
                lane = self._lane(scope)
                if lane is not None and lane.is_ready and offset_of(lane.messages[0]) == offset:
                    if waiting:
                        self._ready[partition] = waiting
                    return scope
        return None

    def first(self, scope: Scope, most: int) -> list[Message]:
        """Returns the first messages of a lane, which stay."""
        lane = self._lane(scope)
        return [] if lane is None else list(islice(lane.messages, most))

    def hand_over(self, scope: Scope, count: int) -> None:
        """Notes that a worker has the first `count` messages of a lane."""
        lane = self._lane(scope)
        if lane is not None:
            lane.in_hand = count

    def give_back(self, scope: Scope) -> bool:
        """Notes that no worker has messages of this lane. False: it was forgotten meanwhile."""
        lane = self._lane(scope)
        if lane is None or not lane.in_hand:
            return False
        lane.in_hand = 0
        return True

    def let_go(self, scope: Scope) -> None:
        """Lets a lane be the next that was passed over: a worker had it, or a circuit held it."""
        lane = self._lane(scope)
        if lane is not None and lane.is_ready:
            self._note_ready(scope, lane)

    def take_out(self, messages: Sequence[Message]) -> None:
        """Takes out the first messages of a lane; nothing where they were dropped."""
        read = self._read.get(partition_of(messages[0])) if messages else None
        if read is not None and (kept := read.undone.get(offset_of(messages[0]))) is not None:
            read.take_out(kept[1], len(messages))

    # -- partitions ------------------------------------------------------------------------

    @property
    def waiting(self) -> Collection[Partition]:
        """The partitions with messages in memory."""
        return self._read.keys()

    def is_above(self, partition: Partition, share: float) -> bool:
        """Whether it holds more than this share of what may be held of a partition."""
        read, partitions = self._read.get(partition), len(self._read)
        return read is not None and is_above(
            share, len(read.undone), read.size_bytes, partitions, self._most
        )

    # -- as any read-ahead -----------------------------------------------------------------

    def read(self, timeout_s: float) -> list[Message]:
        if self.is_busy:
            return self._polled(lambda: self._consume(LARGEST_BATCH))
        return self._polled(lambda: self._batch(timeout_s))

    def keep(self, messages: list[Message]) -> None:
        super().keep(messages)
        for message in messages:
            partition = partition_of(message)
            read = self._read.get(partition)
            if read is None:
                read = self._read[partition] = _Read(offset_of(message))
            read.keep(message, self.lane_of(message))

    def done(self, messages: Sequence[Message]) -> Mapping[Partition, int]:
        found: dict[Partition, int] = {}
        for message in messages:
            partition, offset = partition_of(message), offset_of(message)
            read = self._read.get(partition)
            if read is None:  # the first to arrive, held as a probe: nothing else was read
                found[partition] = offset + 1
            elif offset in read.undone:
                read.done(offset)
                found[partition] = read.base
                if not read.undone:
                    del self._read[partition]
        return found

    def progress(self, partition: Partition) -> Progress | None:
        read = self._read.get(partition)
        if read is None or read.frontier <= read.base:
            return None
        if read.lane(read.base).key is None:
            # Handled in order: what is done above it says the note of an owner before, which names
            # the keys that are not, and is carried as it is.
            return None
        # Of those that are not sorted yet an earlier owner's note may say that they are done.
        arrived = (offset_of(each) for each in self.messages if partition_of(each) == partition)
        read_to = next(arrived, read.last + 1)
        firsts = read.firsts(min(read_to, read.frontier))
        return Progress(read_to, read.frontier, read.leader_epoch, firsts)

    def holds_before(self, message: Message) -> bool:
        read = self._read.get(partition_of(message))
        return read is not None and self.lane_of(message) in read.firsts(offset_of(message))

    def last_kept(self, partition: Partition) -> int | None:
        read = self._read.get(partition)
        return None if read is None else read.last

    def last_of(self, partition: Partition) -> int | None:
        return self.last_kept(partition)

    def forget(self, covers: Callable[[Partition], bool]) -> None:
        self.messages = [each for each in self.messages if not covers(partition_of(each))]
        self._read = {key: read for key, read in self._read.items() if not covers(key)}
        self._ready = {key: waiting for key, waiting in self._ready.items() if not covers(key)}

    def drop(self, covers: Callable[[Partition], bool]) -> None:
        """Does nothing: what was done above a message that is dropped would be forgotten."""

    def drop_through(self, partition: Partition, offset: int) -> None:
        """Does nothing, as nothing in memory is fetched again."""

    def invalidate(self) -> None:
        """Notes that positions are unknown.

        What is in memory is sorted again: an error may have come while a message was in no lane.
        """
        self.is_invalid = True
        arrived = {(partition_of(message), offset_of(message)) for message in self.messages}
        self._ready = {}
        for partition, read in self._read.items():
            in_hand = {scope: lane.in_hand for scope, lane in read.lanes.items()}
            read.lanes, read.out = {}, {*read.undone}
            for offset, (message, scope, _) in read.undone.items():
                place = partition, offset
                if not (place in arrived or place == self.in_hand or self._is_held(*place)):
                    self._append(message, scope)
            for scope, lane in read.lanes.items():
                lane.in_hand = in_hand.get(scope, 0)

    def start_small(self) -> None:
        """Reads on as before: what is handed over at once is limited, not what is read."""
        self._batch_size = LARGEST_BATCH

    def note_speed(self, handled: int, took_s: float) -> None:
        """Does nothing, for the same reason."""

    # -- inside ----------------------------------------------------------------------------

    def _lane(self, scope: Scope) -> _Lane | None:
        read = self._read.get(scope.home)
        return None if read is None else read.lanes.get(scope)

    def _append(self, message: Message, scope: Scope) -> None:
        read = self._read[partition_of(message)]
        lane = read.lanes.get(scope)
        if lane is None:
            lane = read.lanes[scope] = _Lane()
        lane.messages.append(message)
        read.out.discard(offset_of(message))
        if len(lane.messages) == 1:
            self._note_ready(scope, lane)

    def _note_ready(self, scope: Scope, lane: _Lane) -> None:
        first = lane.messages[0]
        waiting = self._ready.setdefault(partition_of(first), [])
        heapq.heappush(waiting, (offset_of(first), scope))
