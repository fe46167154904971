"""The read-ahead of messages that are handled side by side: a queue for each lane."""

import heapq
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice

from linear_retry.consumer.lanes.in_memory import Gap, InMemory, Lane
from linear_retry.consumer.partitions.queued_read_ahead import is_above
from linear_retry.consumer.partitions.read_ahead import LARGEST_BATCH, Progress, ReadAhead
from linear_retry.consumer.settings.by_key import LaneOf
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.consumer.messages import offset_of, partition_of
from linear_retry.kafka.consumer.second_reader import Part
from linear_retry.retry.circuits import Circuits
from linear_retry.retry.clock import Clock
from linear_retry.scope import Partition, Scope

_FEW_MESSAGES = 50
"""Of a lane with a gap: then more is fetched again, so that a worker need not wait for it."""
_MOST_MESSAGES = 500
_MOST_BYTES = 1_000_000
"""Of such a lane: then no more is fetched."""


class LaneReadAhead(ReadAhead):
    """A read-ahead from which the messages of each lane are handed over by themselves.

    What arrives is in `messages` until it is sorted into lanes. It knows what is done of each
    partition, in whatever order, and a seek goes behind what was read. What waits behind a message
    that is held can be dropped, and is filled in again later; all else goes with its partition.
    `is_busy`: a worker has or had something, so that a poll must not wait; else it waits until
    `next_due_at_s` at most.
    """

    is_busy = False
    next_due_at_s = math.inf

    def __init__(
        self,
        lane_of: LaneOf,
        circuits: Circuits[Message],
        client: Client,
        clock: Clock,
        epoch: Callable[[], int],
        *,
        max_poll_interval_s: float,
        session_timeout_s: float,
        most: int = 0,
        most_bytes: int | None = None,
    ) -> None:
        """`circuits` tell which messages are held: these are in no lane.

        `most` messages may be in memory, or more where `MOST_MESSAGES` of each partition are; of
        all together no more than `most_bytes`.
        """
        super().__init__(
            client,
            clock,
            epoch,
            max_poll_interval_s=max_poll_interval_s,
            session_timeout_s=session_timeout_s,
        )
        self.lane_of = lane_of
        self._circuits = circuits
        self._most = most
        self._most_bytes = most_bytes
        self._read: dict[Partition, InMemory] = {}
        self._gaps: dict[Scope, None] = {}
        self._ready: dict[Partition, list[int]] = {}
        """Heaps: where the lanes begin that no worker has."""

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
            read = self._read.get(partition)
            while waiting and read is not None:
                if (scope := read.ready_at(heapq.heappop(waiting))) is not None:
                    if waiting:
                        self._ready[partition] = waiting
                    return scope
        return None

    def first(self, scope: Scope, most: int) -> list[Message]:
        """Returns the first messages of a lane that may be handed over, which stay."""
        lane = self._lane(scope)
        return [] if lane is None else list(islice(lane.messages, min(most, lane.at_hand)))

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
            self._note_ready(lane)

    def take_out(self, messages: Sequence[Message]) -> None:
        """Takes out the first messages of a lane; nothing where they were dropped."""
        read = self._read.get(partition_of(messages[0])) if messages else None
        if read is not None and (kept := read.undone.get(offset_of(messages[0]))) is not None:
            read.take_out(kept[1], len(messages))

    # -- what waits behind messages that are held --------------------------------------------

    def is_crowded(self, partition: Partition) -> bool:
        """Whether more is in memory than there should be, whatever it waits for."""
        read = self._read[partition]
        return self._is_above(1.0, len(read.undone), read.size_bytes)

    def drop_waiting(self, partition: Partition) -> None:
        """Drops messages behind those that are held, of the largest lanes, until half is free.

        At least one of each lane stays: the lane is not done from there on.
        """
        read = self._read[partition]
        sizes = {
            scope: read.size_of(read.lanes[scope].messages)
            for scope in self._circuits.keys_of(partition)
            if scope in read.lanes and len(read.lanes[scope].messages) > 1
        }
        while sizes and self._is_above(0.5, len(read.undone), read.size_bytes):
            largest = max(sizes, key=sizes.__getitem__)
            messages = read.lanes[largest].messages
            read.cut(largest, len(messages) // 2)
            self._gaps[largest] = None
            sizes[largest] = read.size_of(messages)
            if len(messages) == 1:
                del sizes[largest]

    def next_gap(self) -> tuple[Scope, int] | None:
        """Returns a lane that is not held any more, and from where on its messages are not here.

        They take turns. None: none has few messages left in memory.
        """
        for scope in self._gaps:
            gap = self._open_gap(scope, _FEW_MESSAGES)
            if gap is not None:
                return scope, gap.next
        return None

    def next_gap_at(self, partition: Partition, offset: int) -> tuple[Scope, int] | None:
        """Returns a lane of which messages are missing from `offset` on, and that has room."""
        for scope in self._gaps:
            gap = self._open_gap(scope)
            if gap is not None and (scope.home, gap.next) == (partition, offset):
                return scope, offset
        return None

    def fill(self, part: Part) -> None:
        """Fills in what was fetched again: for each lane that is not held and has a gap there."""
        found: dict[Scope, list[Message]] = {
            scope: []
            for scope in self._gaps
            if scope.home == part.partition
            and (gap := self._open_gap(scope)) is not None
            and part.start <= gap.next < part.end
        }
        for message in part.messages:
            scope = self.lane_of(message)
            if scope in found:
                found[scope].append(message)
        for scope, messages in found.items():
            if self._read[part.partition].fill(scope, messages, part.end):
                del self._gaps[scope]
            self.let_go(scope)

    def put_off(self, scope: Scope) -> None:
        """Lets other lanes with a gap have their turn first."""
        if scope in self._gaps:
            del self._gaps[scope]
            self._gaps[scope] = None

    # -- partitions ------------------------------------------------------------------------

    @property
    def waiting(self) -> Collection[Partition]:
        """The partitions with messages in memory."""
        return self._read.keys()

    def is_above(self, partition: Partition, share: float) -> bool:
        """Whether it holds more than this share of what may be held of a partition.

        Without what waits for long: however much that is, the others are read on.
        """
        read = self._read.get(partition)
        if read is None or not self._is_above(share, len(read.undone), read.size_bytes):
            return False
        count, size = len(read.undone), read.size_bytes
        circuits = self._circuits.keys_of(partition)
        gaps = [each for each in self._gaps if each.home == partition and each not in circuits]
        for scope in (*circuits, *gaps):
            held = circuits[scope].held if scope in circuits else None
            waiting = read.of(scope, None if held is None else held.message)
            count, size = count - waiting[0], size - waiting[1]
        return self._is_above(share, count, size)

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
                read = self._read[partition] = InMemory(offset_of(message))
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
                found[partition] = self._base_of(partition, read)
        return found

    def pass_over(self, message: Message) -> Mapping[Partition, int]:
        partition, offset = partition_of(message), offset_of(message)
        read = self._read.get(partition)
        if read is None or offset not in read.undone:
            return self.done([message])
        read.pass_over(offset)
        return {partition: self._base_of(partition, read)}

    def next_once_done(self, partition: Partition, offset: int) -> int:
        read = self._read.get(partition)
        return offset + 1 if read is None else read.base_once_done(offset)

    def progress(
        self, partition: Partition, done: int | None = None, noted: int = 0
    ) -> Progress | None:
        read = self._read.get(partition)
        if read is None:
            return None
        base, frontier = read.base, read.frontier
        if done is not None:
            base = read.base_once_done(done)
            frontier = max(frontier, done + 1)
        if frontier <= base:
            return None
        if read.lane(base).key is None:
            # Handled in order: what is done above it says the note of an owner before, which names
            # the keys that are not, and is carried as it is.
            return None
        # Of those that are not sorted yet an earlier owner's note may say that they are done.
        arrived = (offset_of(each) for each in self.messages if partition_of(each) == partition)
        read_to = next(arrived, read.last + 1)
        # What is left of that note begins at `read_to`: before that all that is undone is named.
        firsts = read.firsts(min(read_to, max(frontier, noted)), done)
        return Progress(read_to, frontier, firsts)

    def count_beyond(self, partition: Partition, base: int) -> tuple[int, int]:
        read = self._read.get(partition)
        if read is None:
            return 0, 0
        scopes = (scope for scope, _ in self._circuits if scope.key is not None)
        waiting = sum(self.count_behind(scope) for scope in scopes if scope.home == partition)
        return read.done_above(base), waiting

    def count_behind(self, scope: Scope) -> int:
        read = None if scope.key is None else self._read.get(scope.home)
        return 0 if read is None else read.waiting(scope)

    def holds_before(self, message: Message) -> bool:
        read = self._read.get(partition_of(message))
        return read is not None and self.lane_of(message) in read.firsts(offset_of(message))

    def last_kept(self, partition: Partition) -> int | None:
        read = self._read.get(partition)
        return None if read is None else read.last

    def last_of(self, partition: Partition) -> int | None:
        return self.last_kept(partition)

    def restart_at(self, partition: Partition, offset: int | None) -> int | None:
        last = self.last_kept(partition)
        return offset if offset is None or last is None else max(offset, last + 1)

    def forget(self, covers: Callable[[Partition], bool]) -> None:
        self.messages = [each for each in self.messages if not covers(partition_of(each))]
        self._read = {key: read for key, read in self._read.items() if not covers(key)}
        self._ready = {key: waiting for key, waiting in self._ready.items() if not covers(key)}
        self._gaps = {scope: None for scope in self._gaps if not covers(scope.home)}

    def drop(self, covers: Callable[[Partition], bool]) -> None:
        """Does nothing: what was done above a message that is dropped would be forgotten."""

    def drop_through(self, partition: Partition, offset: int) -> None:
        """Does nothing, as nothing in memory is fetched again."""

    def invalidate(self) -> None:
        """Notes that positions are unknown.

        What is in memory is sorted again: an error may have come while a message was in no lane.
        """
        self.is_invalid = True
        arrived = [(partition_of(message), offset_of(message)) for message in self.messages]
        elsewhere = arrived if self.in_hand is None else [*arrived, self.in_hand]
        self._ready = {}
        for partition, read in self._read.items():
            held = [circuit.held for circuit in self._circuits.keys_of(partition).values()]
            if (one := self._circuits.holding(partition)) is not None:
                held.append(one[1].held)
            stay_out = {offset for key, offset in elsewhere if key == partition}
            read.sort_again(stay_out | {each.offset for each in held if each is not None})
            for lane in read.lanes.values():
                self._note_ready(lane)

    def start_small(self) -> None:
        """Reads on as before: what is handed over at once is limited, not what is read."""
        self._batch_size = LARGEST_BATCH

    def note_speed(self, handled: int, took_s: float) -> None:
        """Does nothing, for the same reason."""

    # -- inside ----------------------------------------------------------------------------

    def _lane(self, scope: Scope) -> Lane | None:
        read = self._read.get(scope.home)
        return None if read is None else read.lanes.get(scope)

    def _open_gap(self, scope: Scope, most: int = _MOST_MESSAGES) -> Gap | None:
        """Returns the gap of a lane that is not held, and has fewer than `most` messages."""
        lane = self._lane(scope)
        if lane is None or self._circuits.get(scope) is not None or len(lane.messages) >= most:
            return None
        has_much = self._read[scope.home].size_of(lane.messages) >= _MOST_BYTES
        return None if has_much and lane.at_hand else lane.gap

    def _base_of(self, partition: Partition, read: InMemory) -> int:
        """The first undone offset; nothing is kept of a partition without any."""
        if not read.undone:
            del self._read[partition]
        return read.base

    def _is_above(self, share: float, count: int, size: int) -> bool:
        return is_above(share, count, size, len(self._read), self._most, self._most_bytes)

    def _append(self, message: Message, scope: Scope) -> None:
        lane = self._read[partition_of(message)].append(message, scope)
        if lane is not None and len(lane.messages) == 1:
            self._note_ready(lane)

    def _note_ready(self, lane: Lane) -> None:
        first = lane.messages[0]
        heapq.heappush(self._ready.setdefault(partition_of(first), []), offset_of(first))
