"""Polls, lets workers attempt partitions side by side, and applies what came of each."""

import math
from collections import deque
from collections.abc import Callable, Collection

from linear_retry.consumer.attempts.hand_out import HandOut, Task
from linear_retry.consumer.attempts.housekeeping import Housekeeping
from linear_retry.consumer.lanes.lane_read_ahead import LaneReadAhead
from linear_retry.consumer.lanes.workers import Work, Workers, attempt_work
from linear_retry.consumer.operations.monitor import Monitor
from linear_retry.consumer.operations.operator_actions import OperatorActions
from linear_retry.consumer.operations.overrun import HangingHandlers
from linear_retry.consumer.ownership.stop import StopFlag
from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.read_ahead import partition_of
from linear_retry.consumer.runners.run_handler import Handler, Results
from linear_retry.scope import Partition, Scope

MOST_AT_ONCE = 64
"""Messages that a worker gets: a queue each way costs more than the rest of our work on one."""
_LOOK_EVERY_S = 0.005
_DRAIN_SHARE = 0.8
"""Of `max.poll.interval.ms`, for what runs in partitions that are revoked."""


class LaneLoop:
    """Runs the turns of a consumer whose partitions are attempted side by side.

    The owner thread has all state, and workers have only messages. The next ones of a partition are
    handed over once what became of those before is applied: its order is that of a single thread.
    """

    def __init__(
        self,
        housekeeping: Housekeeping,
        hand_out: HandOut,
        read_ahead: LaneReadAhead,
        assignment: Assignment,
        workers: Workers,
        hanging: HangingHandlers,
        operator_actions: OperatorActions,
        monitor: Monitor,
        stop: StopFlag,
        close_timeout_s: float,
    ) -> None:
        """`close_timeout_s` is how long the end of a run waits for handlers."""
        self._housekeeping = housekeeping
        self._hand_out = hand_out
        self._read_ahead = read_ahead
        self._assignment = assignment
        self._workers = workers
        self._hanging = hanging
        self._monitor = monitor
        self._stop = stop
        self._now_s = housekeeping.now_s
        self._close_timeout_s = close_timeout_s
        self._back: deque[Work] = deque()
        self._problem: BaseException | None = None
        operator_actions.is_attempted = self._is_attempted

    def run(self, handler: Handler) -> None:
        """Runs `handler` on the workers until a stop, and then until they are done.

        Raises what cannot be retried; nothing unhandled is committed.
        """
        results = Results()

        def attempt(work: Work) -> None:
            attempt_work(work, handler, self._now_s, results)

        self._problem = None
        self._stop.allow_until(math.inf)
        try:
            while not self._stop.asked:
                self.turn(attempt)
            self.finish()
        except BaseException as error:
            # An interrupt must not wait for a handler.
            self.abandon(waits=not isinstance(error, KeyboardInterrupt))
            raise

    def turn(self, attempt: Callable[[Work], None]) -> None:
        """Applies what has come back, polls, and hands over what is due."""
        housekeeping = self._housekeeping
        housekeeping.await_delivery()
        if self._problem is not None:
            raise self._problem
        self._conclude_all()
        self._read_ahead.is_busy = bool(self._workers.running)
        housekeeping.poll()
        running = self._workers.running.values()
        self._hanging.check(work.task.batch for work in running)
        for scope in housekeeping.scopes_to_probe():
            if self._may_begin((scope.topic, scope.partition)):
                self._begin(self._hand_out.probe(scope), attempt)
        for partition in self._read_ahead.ready():
            if self._may_begin(partition):
                self._begin(self._next_of(partition), attempt)
        self._note_running()
        if self._workers.running and not self._stop.asked:
            self._wait()

    def finish(self) -> None:
        """Waits for the works, and applies what came of them; not of those that take too long."""
        self._await_works(self._conclude)

    def abandon(self, *, waits: bool) -> None:
        """Ends a run that cannot go on: notes what the works have done, if it `waits` for them."""
        self._read_ahead.invalidate()
        self._workers.hurry(tuple(self._workers.running))
        if waits:
            self._await_works(self._conclude_abandoned)

    def drain(self, partitions: Collection[Partition]) -> None:
        """Waits for what runs in partitions that are about to be revoked, and notes what is done.

        At most until 80 % of `max.poll.interval.ms` since the last poll: later the group would
        remove this member.
        """
        self._workers.hurry(partitions)
        polled_at_s, overruns_at_s = self._read_ahead.polled_at_s, self._read_ahead.overruns_at_s
        until_s = polled_at_s + _DRAIN_SHARE * (overruns_at_s - polled_at_s)
        while self._has_running(partitions):
            work = self._workers.ended(until_s - self._now_s())
            if work is None:
                break
            self._back.append(work)
        for work in [each for each in self._back if each.partition in partitions]:
            self._back.remove(work)
            self._come_back(work, self._hand_out.conclude_revoked)
            self._problem = self._problem or work.problem  # raised once the partitions are gone

    def close(self) -> None:
        """Ends the workers, each once its handler returns."""
        self._workers.close()

    # -- inside ----------------------------------------------------------------------------

    def _next_of(self, partition: Partition) -> Task | None:
        ahead = self._read_ahead.first(partition, MOST_AT_ONCE)
        left = ahead.copy()
        task = self._hand_out.next_of(left)
        self._read_ahead.take_out(ahead[: len(ahead) - len(left)])
        return task

    def _may_begin(self, partition: object) -> bool:
        """Whether a worker is free, and none has messages of the partition, now or from before."""
        return (
            self._workers.are_free
            and partition not in self._workers.running
            and not self._stop.asked
        )

    def _begin(self, task: Task | None, attempt: Callable[[Work], None]) -> None:
        """Hands a task to a worker; without one, sends what is leaving in its place."""
        if task is None:
            self._housekeeping.await_delivery()
            return
        partition = partition_of(task.batch.messages[0])
        if task.held is None:
            self._read_ahead.hand_over(partition, len(task.batch.messages))
        self._workers.begin(Work(task, partition, self._assignment, self._stop), attempt)

    def _conclude_all(self) -> None:
        while (work := self._next_back()) is not None:
            self._conclude(work)

    def _next_back(self) -> Work | None:
        return self._back.popleft() if self._back else self._workers.ended()

    def _conclude(self, work: Work) -> None:
        """Applies what came of a work, unless its partition is not ours any more."""
        self._come_back(work, self._hand_out.conclude)
        if work.problem is not None:
            raise work.problem
        self._housekeeping.await_delivery()

    def _conclude_abandoned(self, work: Work) -> None:
        """Notes what is done of a work, and nothing else."""
        self._come_back(work, self._hand_out.conclude_abandoned)

    def _come_back(self, work: Work, apply: Callable[[Task], None]) -> None:
        self._workers.conclude(work)
        try:
            if work.is_ours:
                self._monitor.end_batch(self._now_s() - work.task.begun_s)
                self._read_ahead.give_back(work.partition)
                apply(work.task)
        finally:
            # Its traceback leads to this batch: a cycle, which would last for the whole wait.
            work.task.batch.error = None

    def _wait(self) -> None:
        """Waits until a work comes back, or there may be something to poll for.

        New messages of other partitions are seen within 5 ms. Waiting for them inside librdkafka
        would make the next messages of this partition wait for them too.
        """
        now_s = self._now_s()
        until_s = self._read_ahead.deadline_s
        if self._workers.are_free:
            until_s = min(until_s, now_s + _LOOK_EVERY_S)
        work = self._workers.ended(until_s - now_s)
        if work is not None:
            self._back.append(work)

    def _await_works(self, apply: Callable[[Work], None]) -> None:
        self._workers.hurry(tuple(self._workers.running))
        give_up_at_s = self._now_s() + self._close_timeout_s
        while self._workers.running and (left_s := give_up_at_s - self._now_s()) > 0:
            work = self._next_back() or self._workers.ended(min(left_s, self._read_ahead.touch_s))
            if work is None:
                self._housekeeping.poll_if_late()
            else:
                apply(work)
        self._note_running()

    def _has_running(self, partitions: Collection[Partition]) -> bool:
        """Whether a worker still has messages of one of these, in its current assignment."""
        back = {work.partition for work in self._back}
        return any(
            work.partition in partitions and work.partition not in back and work.is_ours
            for work in self._workers.running.values()
        )

    def _note_running(self) -> None:
        running = self._workers.running.values()
        oldest = next(iter(running), None)
        self._monitor.handed_out = (
            None if oldest is None else (oldest.task.begun_s, oldest.task.batch.messages[0])
        )

    def _is_attempted(self, scope: Scope) -> bool:
        return (scope.topic, scope.partition) in self._workers.running
