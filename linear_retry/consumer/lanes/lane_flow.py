"""Bounds what is in memory, and fetches again what was dropped behind messages that are held."""

import math
from collections.abc import Callable

from linear_retry.consumer.lanes.lane_read_ahead import LaneReadAhead
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.queued_read_ahead import HoldBack
from linear_retry.events import DataLost, Event
from linear_retry.kafka.consumer.second_reader import Part, SecondReader
from linear_retry.log.lines import log_topic_problem
from linear_retry.retry.clock import NowS
from linear_retry.scope import Partition, Scope

_LOOK_EVERY_S = 0.005
_PATIENCE_S = 1.0
_IN_A_ROW = 10
"""Parts for one lane: to read on costs much less than to begin elsewhere."""


class LaneFlow(HoldBack):
    """Drops what waits behind held messages, fetches it again, and holds back a full partition.

    A message that is held for hours must not stop the others of its partition, nor fill the memory
    with those that wait for it. These are dropped where there are too many, as its place in the
    note says that they are not done; once it succeeds a second client reads them again, a part at a
    time, while the position of the first stays where it is.
    """

    def __init__(
        self,
        read_ahead: LaneReadAhead,
        flow_control: FlowControl,
        second_reader: SecondReader,
        now_s: NowS,
        emit: Callable[[Event], None],
    ) -> None:
        super().__init__(read_ahead, flow_control)
        self._lanes = read_ahead
        self._second_reader = second_reader
        self._now_s = now_s
        self._emit = emit
        self._asked: tuple[Scope, float] | None = None
        self._parts = 0
        self._read_to: tuple[Partition, int] | None = None
        self._not_before_s = self._rests_at_s = -math.inf
        self._told: set[Partition] = set()

    @property
    def due_at_s(self) -> float:
        is_fetching = self._second_reader.is_reading or self._lanes.next_gap() is not None
        # One that is full is crowded too: asked in each turn, this must cost next to nothing.
        return -math.inf if is_fetching or self._crowded() or self._roomy() else math.inf

    def tick(self) -> None:
        """Once a turn, after the poll."""
        for partition in self._crowded():
            self._lanes.drop_waiting(partition)
        self._fetch()
        super().tick()

    # -- inside ----------------------------------------------------------------------------

    def _crowded(self) -> list[Partition]:
        return [key for key in self._lanes.waiting if self._lanes.is_crowded(key)]

    def _fetch(self) -> None:
        """Asks for what is missing of one lane, a part at a time, and takes what has come."""
        gap, now_s = self._next_gap(), self._now_s()
        if gap is None:
            if now_s >= self._rests_at_s:
                self._second_reader.rest()
            self._asked, self._lanes.next_due_at_s = None, math.inf
            return
        self._rests_at_s = now_s + _PATIENCE_S
        self._lanes.next_due_at_s = max(now_s + _LOOK_EVERY_S, self._not_before_s)
        if now_s < self._not_before_s:
            return
        scope, offset = gap
        if self._asked is None or self._asked[0] != scope:
            self._asked = scope, now_s
        part = self._second_reader.read(scope.home, offset)
        if part is not None:
            self._asked = None
            self._take(scope, part)
        elif now_s - self._asked[1] >= _PATIENCE_S:
            # Its leader may be away, and that of another lane's partition not. Or librdkafka has
            # stalled it, or has reported an error behind the last part: assigning it again helps.
            self._asked = None
            self._second_reader.rest()
            self._begin_elsewhere(scope)

    def _take(self, scope: Scope, part: Part) -> None:
        if part.problem:
            self._not_before_s = self._now_s() + _PATIENCE_S
            self._begin_elsewhere(scope)
            self._tell(part)
            return
        self._told.discard(part.partition)
        if part.is_lost:
            self._emit(DataLost(*part.partition, offset=part.start, next_offset=part.end))
        self._lanes.fill(part)
        self._parts += 1
        self._read_to = part.partition, part.end
        if self._parts % _IN_A_ROW == 0:
            self._begin_elsewhere(scope)

    def _begin_elsewhere(self, scope: Scope) -> None:
        """Lets other lanes have their turn, where there are any."""
        self._read_to = None
        self._lanes.put_off(scope)

    def _next_gap(self) -> tuple[Scope, int] | None:
        """Where to fetch next: where the last part ended, if anybody misses what follows."""
        here = None if self._read_to is None else self._lanes.next_gap_at(*self._read_to)
        return here or self._lanes.next_gap()

    def _tell(self, part: Part) -> None:
        """Logs it once: its key waits until it can be read."""
        if part.partition not in self._told:
            self._told.add(part.partition)
            log_topic_problem(
                part.partition[0],
                f"messages of partition {part.partition[1]} from offset {part.start} on, which "
                f"wait behind one that was held, cannot be read again ({part.problem}); it is "
                "tried again each second, and their keys wait meanwhile",
            )
