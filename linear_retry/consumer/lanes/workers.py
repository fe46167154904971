"""Works, which are messages of one lane, and the threads that call the handler with them."""

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from queue import Empty, SimpleQueue
from types import MappingProxyType

from linear_retry.consumer.attempts.hand_out import Task
from linear_retry.consumer.ownership.stop import StopFlag
from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.runners.run_handler import (
    Handler,
    Results,
    attempt_all,
    in_hand,
)
from linear_retry.kafka.consumer.messages import partition_of
from linear_retry.retry.clock import NowS
from linear_retry.scope import Partition, Scope

HANDED_OVER_FOR_S = 0.05
"""After that a worker begins no further message of what it was given."""


class Work:
    """Messages of one lane that a worker has, in the assignment in which they were read.

    `problem` is what the attempt raised beyond a failure of a message: the run ends with it.
    """

    def __init__(self, task: Task, lane: Scope, assignment: Assignment, stop: StopFlag) -> None:
        self.task = task
        self.lane = lane
        self.partition = partition = partition_of(task.batch.messages[0])
        self.problem: BaseException | None = None
        self.stop = stop
        self._assignment = assignment
        self._epoch = assignment.epochs[partition]
        self._until_s = task.begun_s + HANDED_OVER_FOR_S

    @property
    def is_ours(self) -> bool:
        """Whether its partition has been assigned ever since. For any thread."""
        return self._assignment.epochs.get(self.partition) == self._epoch

    @property
    def has_succeeded(self) -> bool:
        """Whether messages that were not held have been handled, and nothing follows it."""
        return self.task.held is None and not self.has_failed

    @property
    def has_failed(self) -> bool:
        """Whether a message has failed, or the run is to end."""
        return self.task.batch.error is not None or self.problem is not None

    @property
    def poll_by_s(self) -> float:
        """When to begin no further message. For any thread."""
        # A stop, and a fork, whose child must not go on, set the flag's own.
        return min(self._until_s, self.stop.poll_by_s) if self.is_ours else -math.inf

    def hurry(self) -> None:
        """Ends it after the message in hand. Thread-safe."""
        self._until_s = -math.inf


def attempt_work(work: Work, handler: Handler, now_s: NowS, results: Results) -> None:
    """Calls `handler` with each message of a work; with none if it was lost or stopped before."""
    if work.poll_by_s > -math.inf:
        work.task.begun_s = now_s()  # it may have waited for a worker
        with in_hand(work.task.batch, handler):
            attempt_all(work.task.batch, handler, work, now_s, results)


class Works(ABC):
    """What is attempted elsewhere, up to `count` works at once; a few more wait for their turn.

    All state is the owner thread's. At most one work of a lane is under way, also if its partition
    was lost and has returned.
    """

    def __init__(
        self, count: int, returned: SimpleQueue[Work | None], *, most_waiting: int = 0
    ) -> None:
        """`returned` has the works that have come back; a None in it is no work."""
        self._count = count
        self._most_waiting = most_waiting
        self._returned = returned
        self._running: dict[Scope, Work] = {}
        self.running: Mapping[Scope, Work] = MappingProxyType(self._running)
        """The works that are not concluded, in the order in which they were begun."""

    @property
    def are_free(self) -> bool:
        """Whether another work would be begun at once."""
        return len(self._running) < self._count

    @property
    def may_wait(self) -> bool:
        """Whether another work may be begun, and waits for its turn if none is free."""
        return len(self._running) < self._count + self._most_waiting

    @property
    def attempted(self) -> Iterator[Work]:
        """Those of `running` that do not wait for their turn: the first, as they take turns."""
        return islice(self._running.values(), self._count)

    @abstractmethod
    def begin(self, work: Work, attempt: Callable[[Work], None]) -> None:
        """Has `work` attempted by `attempt`, and waits for nothing."""

    def ended(self, timeout_s: float = 0.0) -> Work | None:
        """Returns a work that has come back, after `timeout_s` at most; None without one."""
        try:
            return self._returned.get(block=timeout_s > 0, timeout=max(timeout_s, 0.0))
        except Empty:
            return None

    @abstractmethod
    def take_back(self) -> None:
        """Lets those that wait for their turn come back as they are, but for probes."""

    def conclude(self, work: Work) -> None:
        """Notes that what came of it is applied: its lane may have another."""
        del self._running[work.lane]

    def hurry(self, partitions: Collection[Partition] | None = None) -> None:
        """Lets the works of these partitions, or all, end after the message in hand."""
        for work in self._running.values():
            if partitions is None or work.partition in partitions:
                work.hurry()
        self.take_back()

    @abstractmethod
    def close(self) -> None:
        """Ends what attempts them, each once its work is done; waits for none."""


class Workers(Works):
    """Up to `count` daemon threads, begun as they are needed.

    A worker gets a work by one queue, and returns it by another. As many works as there are workers
    may wait in the first: with quick handlers, to wait for us would take longer than they do. But
    as long as we do not know of a failure, only probes are attempted: it may be an outage.
    """

    def __init__(self, count: int) -> None:
        super().__init__(count, SimpleQueue(), most_waiting=count)
        self._failed: set[Work | None] = set()
        self._threads = 0
        self._begun: SimpleQueue[tuple[Work, Callable[[Work], None]] | None] = SimpleQueue()

    def begin(self, work: Work, attempt: Callable[[Work], None]) -> None:
        self._running[work.lane] = work
        if self._threads < min(len(self._running), self._count):
            self._threads += 1
            name = f"linear_retry worker {self._threads}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        self._begun.put((work, attempt))

    def ended(self, timeout_s: float = 0.0) -> Work | None:
        work = super().ended(timeout_s)
        self._failed.discard(work)
        return work

    def take_back(self) -> None:
        stay: list[tuple[Work, Callable[[Work], None]] | None] = []
        with suppress(Empty):
            while begun := self._begun.get_nowait():  # what is taken here, no worker takes
                if begun[0].task.held is None:
                    self._returned.put(begun[0])
                else:
                    stay.append(begun)
            stay.append(begun)  # one worker's end
        for begun in stay:
            self._begun.put(begun)

    def close(self) -> None:
        for _ in range(self._threads):
            self._begun.put(None)
        self._threads = 0

    def _work(self) -> None:
        while (begun := self._begun.get()) is not None:
            work, attempt = begun
            if not self._failed or work.task.held is not None:
                self._attempt(work, attempt)
            self._returned.put(work)
            work.stop.check_process()  # the child of a fork has this thread only: it ends
            # Nothing may keep what was handled alive while this thread waits.
            del begun, work, attempt

    def _attempt(self, work: Work, attempt: Callable[[Work], None]) -> None:
        try:
            attempt(work)
        except BaseException as error:  # noqa: BLE001  (raised again by the owner thread)
            work.problem = error
        if work.has_failed:
            self._failed.add(work)
