"""Workers without threads: a work is attempted when it is waited for, in an order that is drawn."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator
from itertools import islice

from linear_retry.consumer.lanes.workers import Work
from linear_retry.scope import Partition, Scope
from tests.fake.clock import VirtualClock

_SLOW_S = 0.05
_LONG_S = 10.0


def _nothing(work: Work) -> None:
    """Its attempt is over."""


class FakeWorkers:
    """As `Workers`. Some works take a while: polls and rebalances come in between."""

    most_waiting: int | None = None
    """How many works may wait for a worker; None: as many as there are workers."""

    def __init__(
        self, count: int, clock: VirtualClock, rng: random.Random, is_killed: Callable[[], bool]
    ) -> None:
        """`is_killed`: what a handler raises then ends the process, with this thread.

        `busy` are partitions whose handler does not return for now; `late` those whose handler is
        called as soon as a worker has the message, and comes back to whoever waits for it for long.
        """
        self._count = count
        self._clock = clock
        self._rng = rng
        self._is_killed = is_killed
        self._attempts: dict[Scope, Callable[[Work], None]] = {}
        self._taken_back: list[Work] = []
        self.running: dict[Scope, Work] = {}
        self.busy: set[Partition] = set()
        self.late: set[Partition] = set()

    @property
    def are_free(self) -> bool:
        return len(self.running) < self._count

    @property
    def may_wait(self) -> bool:
        most = self._count if self.most_waiting is None else self.most_waiting
        return len(self.running) < self._count + most

    @property
    def attempted(self) -> Iterator[Work]:
        return islice(self.running.values(), self._count)

    def begin(self, work: Work, attempt: Callable[[Work], None]) -> None:
        assert work.lane not in self.running
        waits = len(self._attempts) >= self._count
        self.running[work.lane] = work
        self._attempts[work.lane] = attempt
        if work.partition in self.late and not waits:
            attempt(work)
            self._attempts[work.lane] = _nothing

    def ended(self, timeout_s: float = 0.0) -> Work | None:
        if self._taken_back:
            return self._taken_back.pop(0)
        late = self.late if timeout_s < _LONG_S else set()
        waits = self.busy | late
        first = list(self._attempts)[: self._count]
        due = [lane for lane in first if self.running[lane].partition not in waits]
        if not due or (timeout_s < 1.0 and self._rng.random() < 0.4):
            self._clock.advance(max(timeout_s if not due else min(timeout_s, _SLOW_S), 0.0))
            return None
        lane = self._rng.choice(due)
        work, attempt = self.running[lane], self._attempts.pop(lane)
        try:
            attempt(work)
        except BaseException as error:
            if self._is_killed():
                raise
            work.problem = error
        return work

    def take_back(self) -> None:
        for lane in list(self._attempts)[self._count :]:
            if self.running[lane].task.held is None:
                del self._attempts[lane]
                self._taken_back.append(self.running[lane])

    def conclude(self, work: Work) -> None:
        del self.running[work.lane]

    def hurry(self, partitions: Collection[Partition] | None = None) -> None:
        for work in self.running.values():
            if partitions is None or work.partition in partitions:
                work.hurry()
        self.take_back()

    def close(self) -> None:
        self._attempts.clear()


class SteppedWorkers(FakeWorkers):
    """As `FakeWorkers`, with nothing left to chance: a work comes back to the first who asks.

    But for the next of each key in `slow`: its handler has returned, and nobody knows as long as
    its lane is in `kept`, except who waits for long, as at a revoke.
    """

    most_waiting = 0

    def __init__(self, count: int, clock: VirtualClock) -> None:
        super().__init__(count, clock, random.Random(), lambda: False)
        self.slow: set[object] = set()
        self.kept: set[Scope] = set()

    def begin(self, work: Work, attempt: Callable[[Work], None]) -> None:
        super().begin(work, _nothing)
        attempt(work)
        work.task.batch.coming = iter(())
        key = work.task.batch.messages[0].key()
        if key in self.slow:
            self.slow.remove(key)
            self.kept.add(work.lane)

    def ended(self, timeout_s: float = 0.0) -> Work | None:
        kept = set() if timeout_s >= _LONG_S else self.kept
        lane = next((each for each in self._attempts if each not in kept), None)
        if lane is None:
            self._clock.advance(max(timeout_s, 0.0))
            return None
        del self._attempts[lane]
        self.kept.discard(lane)
        return self.running[lane]
