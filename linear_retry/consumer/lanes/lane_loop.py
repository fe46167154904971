"""Polls, lets workers attempt partitions side by side, and applies what came of each."""

import math
from collections import deque
from collections.abc import Callable, Collection
from functools import partial

from linear_retry.consumer.attempts.hand_out import HandOut, Task
from linear_retry.consumer.attempts.housekeeping import Housekeeping
from linear_retry.consumer.control.operator_actions import OperatorActions
from linear_retry.consumer.lanes.lane_read_ahead import LaneReadAhead
from linear_retry.consumer.lanes.wide_circuit import WideCircuits
from linear_retry.consumer.lanes.workers import Work, Works, attempt_work
from linear_retry.consumer.operations.monitor import Monitor
from linear_retry.consumer.operations.overrun import HangingHandlers
from linear_retry.consumer.ownership.stop import StopFlag
from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.runners.run_handler import Handler, Results
from linear_retry.errors import UsageError
from linear_retry.kafka.consumer.messages import offset_of
from linear_retry.retry.case import Failing
from linear_retry.scope import Partition, Scope

MOST_AT_ONCE = 64
"""Messages that a worker gets: a queue each way costs more than the rest of our work on one."""
_MOST_OF_A_KEY = 16
_NEAR = 256
"""Offsets: each key that is passed over by a worker with later messages has a place in the note."""
_LOOK_EVERY_S = 0.005
_QUICK_S = 0.01
"""For a work: what is quicker may wait at the workers for its turn."""
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
        workers: Works,
        hanging: HangingHandlers,
        operator_actions: OperatorActions,
        monitor: Monitor,
        stop: StopFlag,
        close_timeout_s: float,
        wide: WideCircuits | None = None,
        revoke_wait_s: float | None = None,
    ) -> None:
        """`close_timeout_s` is how long the end of a run waits for handlers, a revoke at most
        `revoke_wait_s`, and no longer than the group allows.

        `wide`: the lanes are of keys. None: of partitions.
        """
        self._housekeeping = housekeeping
        self._hand_out = hand_out
        self._read_ahead = read_ahead
        self._assignment = assignment
        self._workers = workers
        self._hanging = hanging
        self._monitor = monitor
        self._stop = stop
        self._wide = wide
        self._circuits = operator_actions.circuits
        self._now_s = housekeeping.now_s
        self._close_timeout_s = close_timeout_s
        self._revoke_wait_s = math.inf if revoke_wait_s is None else revoke_wait_s
        self._back: deque[Work] = deque()
        self._is_quick = False
        self._makes_way = False
        self._problem: BaseException | None = None
        self._attempt: Callable[[Work], None] | None = None
        operator_actions.is_attempted = self._is_attempted

    def run(self, handler: Handler) -> None:
        """Runs `handler` on the workers until a stop, and then until they are done.

        Raises what cannot be retried; nothing unhandled is committed.
        """
        results = Results()

        def attempt(work: Work) -> None:
            attempt_work(work, handler, self._now_s, results)

        self._run(attempt)

    def run_elsewhere(self, works: Works, pass_on: Callable[[Work], None]) -> None:
        """As `run`, but `pass_on` gives each work to others, who return it to `works`."""
        self._workers = works
        self._run(pass_on)

    def _run(self, attempt: Callable[[Work], None]) -> None:
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
        # Behind what comes back now more may be ready: a poll that waits would keep it waiting.
        self._read_ahead.is_busy = bool(self._workers.running)
        self._makes_way = False
        self._conclude_all()
        self._poll(attempt)
        self._hanging.check(work.task.batch for work in self._workers.attempted)
        self._take_in()
        for scope in housekeeping.scopes_to_probe():
            if self._is_wide(scope):
                self._circuits.half_open(scope)
            elif self._may_probe(scope):
                self._begin(scope, self._hand_out.probe(scope), attempt)
        if self._wide is not None:
            for scope in self._wide.awaiting_probe():
                self._probe_wide(scope, self._wide, attempt)
        self._begin_ready(attempt)
        self._note_running()
        if self._workers.running and not self._stop.asked:
            self._wait()

    def finish(self) -> None:
        """Waits for the works, and applies what came of them; not of those that take too long."""
        self._await_works(self._conclude)

    def abandon(self, *, waits: bool) -> None:
        """Ends a run that cannot go on: notes what the works have done, if it `waits` for them."""
        self._read_ahead.invalidate()
        self._workers.hurry()
        if waits:
            self._await_works(self._conclude_abandoned)

    def drain(self, partitions: Collection[Partition]) -> None:
        """Waits for what runs in partitions that are about to be revoked, and notes what is done.

        At most until 80 % of `max.poll.interval.ms` since the last poll: later the group would
        remove this member. What is in memory of the others is attempted meanwhile.
        """
        self._workers.hurry(partitions)
        polled_at_s, overruns_at_s = self._read_ahead.polled_at_s, self._read_ahead.overruns_at_s
        until_s = polled_at_s + _DRAIN_SHARE * (overruns_at_s - polled_at_s)
        until_s = min(until_s, self._now_s() + self._revoke_wait_s)
        for returned in [each for each in self._back if each.partition in partitions]:
            self._back.remove(returned)
            self._conclude_revoked(returned)
        while self._has_running(partitions):
            if self._attempt is not None:
                self._begin_ready(self._attempt, leaves_out=partitions)
            work = self._workers.ended(until_s - self._now_s())
            if work is None:
                break
            if work.partition in partitions:
                self._conclude_revoked(work)
            elif self._attempt is not None and work.has_succeeded:
                self._conclude_meanwhile(work)
            else:
                self._back.append(work)

    def pause(self, partitions: Collection[Partition]) -> None:
        """Lets what runs in partitions that are paused end after the message in hand."""
        self._workers.hurry(partitions)

    def resume(self, partitions: Collection[Partition]) -> None:
        """Lets keys of partitions that were paused begin slowly, as after an outage."""
        if self._wide is not None:
            self._wide.begin_slowly(partitions)

    def close(self) -> None:
        """Ends the workers, each once its handler returns."""
        self._workers.close()

    # -- inside ----------------------------------------------------------------------------

    def _poll(self, attempt: Callable[[Work], None]) -> None:
        """Polls; only in this poll, while no letter is on its way, a revoke may begin works."""
        self._attempt = attempt
        try:
            self._housekeeping.poll()
        finally:
            self._attempt = None

    def _take_in(self) -> None:
        """Sorts what has arrived into lanes, except what is not to be attempted."""
        while ahead := self._read_ahead.messages:
            self._read_ahead.sort(self._hand_out.for_us(ahead))

    def _begin_ready(
        self, attempt: Callable[[Work], None], leaves_out: Collection[Partition] = ()
    ) -> None:
        """Hands over the first messages of lanes, as long as they are begun, or begun soon.

        It `leaves_out` partitions that are to go, with their lanes.
        """
        passed_over: list[Scope] = []
        while self._takes_another and (lane := self._read_ahead.next_ready()) is not None:
            if lane.home in leaves_out:
                continue
            if not self._is_idle(lane) or self._circuits.get(lane) is not None:
                continue  # it gets a turn once that ends
            if not self._may_begin(lane):
                passed_over.append(lane)
            else:
                self._begin(lane, self._next_of(lane), attempt)
        for lane in passed_over:
            self._read_ahead.let_go(lane)

    def _may_begin(self, lane: Scope) -> bool:
        """Whether neither a pause nor the circuit over many keys has stopped this lane."""
        if self._circuits.by_order and self._circuits.by_order.covers(lane.home):
            return False
        return self._wide is None or self._wide.may_begin(lane, self._workers.running)

    def _is_wide(self, scope: Scope) -> bool:
        """Whether it is the circuit over many keys."""
        return self._wide is not None and scope.key is None

    def _probe_wide(
        self, scope: Scope, wide: WideCircuits, attempt: Callable[[Work], None]
    ) -> None:
        """Begins a probe of an outage: of a held key that is due, or of one that has not failed."""
        kinds = (self._due_key, self._fresh_key)
        for choose in kinds if wide.prefers_held(scope) else reversed(kinds):
            lane = choose(scope, wide)
            if lane is not None:
                is_held = self._circuits.get(lane) is not None
                wide.begin_probe(scope, lane, is_held=is_held)
                task = self._hand_out.probe(lane) if is_held else self._next_of(lane, most=1)
                self._begin(lane, task, attempt)
                if task is None:
                    wide.ended(lane)
                return

    def _due_key(self, scope: Scope, wide: WideCircuits) -> Scope | None:
        lane = wide.due_key(scope)
        return lane if lane is not None and self._may_probe(lane) else None

    def _fresh_key(self, scope: Scope, wide: WideCircuits) -> Scope | None:
        passed_over: list[Scope] = []
        found = None
        while found is None and (lane := self._read_ahead.next_ready()) is not None:
            if self._circuits.get(lane) is not None:
                continue
            is_paused = self._circuits.by_order.covers(lane.home)
            if wide.over(lane) == scope and not is_paused and self._may_probe(lane):
                found = lane
            else:
                passed_over.append(lane)
        for lane in passed_over:
            self._read_ahead.let_go(lane)
        return found

    def _next_of(self, lane: Scope, most: int = MOST_AT_ONCE) -> Task:
        if self._wide is None:
            return self._hand_out.task(self._read_ahead.first(lane, most))
        most = min(most, 1 if self._wide.begins_one(lane) else _MOST_OF_A_KEY)
        messages = self._read_ahead.first(lane, most)
        before = offset_of(messages[0]) + _NEAR
        return self._hand_out.task([each for each in messages if offset_of(each) < before])

    @property
    def _takes_another(self) -> bool:
        """Whether a worker is free, or will be in a moment."""
        may_wait = self._is_quick and not self._makes_way and self._workers.may_wait
        return may_wait or self._workers.are_free

    def _may_probe(self, lane: Scope) -> bool:
        """Whether a worker is free, and none has messages of the lane, now or from before.

        If all are busy, nothing more waits for them: there might always be something.
        """
        if not self._is_idle(lane):
            return False
        if not self._workers.are_free:
            self._makes_way = True
        return self._workers.are_free

    def _is_idle(self, lane: Scope) -> bool:
        return lane not in self._workers.running and not self._stop.asked

    def _begin(self, lane: Scope, task: Task | None, attempt: Callable[[Work], None]) -> None:
        """Hands a task to a worker; without one, sends what is leaving in its place."""
        if task is None:
            self._housekeeping.await_delivery()
            return
        if task.held is None:
            self._read_ahead.hand_over(lane, len(task.batch.messages))
        self._workers.begin(Work(task, lane, self._assignment, self._stop), attempt)

    def _conclude_all(self) -> None:
        while (work := self._next_back()) is not None:
            self._conclude(work)

    def _next_back(self) -> Work | None:
        return self._back.popleft() if self._back else self._workers.ended()

    def _conclude(self, work: Work) -> None:
        """Applies what came of a work, and raises its problem; sends what is leaving."""
        self._apply(work)
        if work.problem is not None:
            raise work.problem
        self._housekeeping.await_delivery()

    def _conclude_meanwhile(self, work: Work) -> None:
        """Applies the success of a work, inside a callback of the client."""
        try:
            self._apply(work)
        except (UsageError, SystemExit) as error:  # raised once the partitions are gone
            self._problem = self._problem or error

    def _apply(self, work: Work) -> None:
        """Applies what came of a work, unless its partition is not ours any more."""
        lane, wide = work.lane, self._wide
        self._come_back(
            work, self._hand_out.conclude if wide is None else partial(self._judge, wide, lane)
        )

    def _judge(self, wide: WideCircuits, lane: Scope, task: Task) -> None:
        """Applies what came of messages of a key, which may tell of an outage, or of its end."""
        batch, is_first = task.batch, task.held is None
        has_failed, unheld = batch.error is not None, None
        if has_failed:  # it may be an outage, in which nothing more is begun
            self._workers.take_back()
        if has_failed and is_first and wide.holds_no_more(lane):
            unheld = self._hand_out.conclude_unheld(task)
        else:
            self._hand_out.conclude(task)
        if batch.handled:
            wide.succeeded(lane, task.begun_s)
        if unheld is not None:
            wide.failed_first(lane, unheld)
        elif has_failed and task.held is not None:
            wide.failed_again(lane, task.held)
        elif has_failed:
            circuit = self._circuits.get(lane)
            if circuit is not None and isinstance(circuit.case, Failing):
                wide.failed_first(lane, circuit.case.held)

    def _conclude_revoked(self, work: Work) -> None:
        """Notes what came of a work of a partition that is about to go."""
        self._come_back(work, self._hand_out.conclude_revoked)
        self._problem = self._problem or work.problem  # raised once the partitions are gone

    def _conclude_abandoned(self, work: Work) -> None:
        """Notes what is done of a work, and nothing else."""
        self._come_back(work, self._hand_out.conclude_abandoned)

    def _come_back(self, work: Work, apply: Callable[[Task], None]) -> None:
        self._workers.conclude(work)
        try:
            if work.is_ours:
                if work.task.batch.taken:
                    took_s = self._now_s() - work.task.begun_s
                    self._is_quick = took_s < _QUICK_S
                    self._monitor.end_batch(took_s)
                self._read_ahead.give_back(work.lane)
                apply(work.task)
            self._read_ahead.let_go(work.lane)
        finally:
            if self._wide is not None:
                self._wide.ended(work.lane)
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
        self._workers.hurry()
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
        return any(
            work.partition in partitions and work.is_ours for work in self._workers.running.values()
        )

    def _note_running(self) -> None:
        running = self._workers.running.values()
        oldest = next(iter(running), None)
        self._monitor.handed_out = (
            None if oldest is None else (oldest.task.begun_s, oldest.task.batch.messages[0])
        )

    def _is_attempted(self, scope: Scope) -> bool:
        return scope in self._workers.running
