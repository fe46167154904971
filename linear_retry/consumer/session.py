"""Runs one consumer by `run`, the user's own loop or `run_async`, and closes it."""

import math
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from linear_retry.consumer.assembly import Parts, assemble
from linear_retry.consumer.lanes.tasks import LaneTasks, PassedOn
from linear_retry.consumer.lanes.workers import Work
from linear_retry.consumer.operations.health import Health, HealthInputs, evaluate
from linear_retry.consumer.operations.lag import Backlog
from linear_retry.consumer.operations.monitor import Monitor
from linear_retry.consumer.ownership.owner_thread import OwnerThread
from linear_retry.consumer.ownership.requests import OperatorRequest, refused
from linear_retry.consumer.ownership.stop import (
    StopFlag,
    deferring_interrupts,
    stopping_async_on_signals,
    stopping_on_signals,
)
from linear_retry.consumer.partitions.batches import BatchLimits
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.consumer.runners.async_hand_over import BatchHandOver, OwnerSide
from linear_retry.consumer.runners.own_loop import Attempt, Attempts
from linear_retry.consumer.runners.run_handler import Batch, attempt_batch, attempt_each, run
from linear_retry.consumer.settings.by_key import Order, order_of
from linear_retry.consumer.settings.consumer_config import ConsumerConfig
from linear_retry.consumer.settings.inbox import InboxPlaces
from linear_retry.errors import UsageError
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.fatal_errors import as_library_errors
from linear_retry.records.control import Command
from linear_retry.retry.circuits import Circuits
from linear_retry.scope import Partition


def _places(plan: ConsumerConfig, order: Order) -> InboxPlaces | None:
    if plan.inbox is None:
        return None
    groups = plan.settings.group_id, plan.line.group_id
    return plan.inbox.places(*groups, plan.member, plan.dependencies.clock, order)


class Session:
    """Implements `LinearConsumer` for each way of running it.

    The owner thread creates the parts at the first use: here I/O starts.
    """

    def __init__(self, plan: ConsumerConfig, circuits: Circuits[Message], monitor: Monitor) -> None:
        self._plan = plan
        self._circuits = circuits
        self._monitor = monitor
        self._now_s = plan.dependencies.clock.now_s
        self._owner_thread = OwnerThread()
        self._attempts: Attempts | None = None
        self.parts: Parts | None = None
        self.stop = StopFlag()
        self._order = order_of(plan.by_key, plan.settings.group_id)
        self._inbox = _places(plan, self._order)
        self._ready: Iterator[Attempt] = iter(())

    def submit(self, request: OperatorRequest) -> Future[bool]:
        """Submits an operator's request; False at once if no turn will take it."""
        self._owner_thread.check_process()
        if self.parts is None or not self._owner_thread.joined or self.stop.asked:
            return refused()
        return self.parts.requests.submit(request)

    def order(self, command: Command) -> Future[bool]:
        """Sends a command to the whole group; False at once if no turn will see it."""
        self._owner_thread.check_process()
        if self.parts is None or not self._owner_thread.joined or self.stop.asked:
            return refused()
        return self.parts.commands.order(command)

    def health(self) -> Health:
        clock, handed_out = self._plan.dependencies.clock, self._monitor.handed_out
        polled_s, joined = None, self._monitor.joined
        waiting, due_ms = 0, None
        short: Mapping[Partition, int] = {}
        unplaced: frozenset[Partition] = frozenset()
        if self.parts is not None and self._owner_thread.joined:
            polled_s = max(clock.now_s() - self.parts.read_ahead.polled_at_s, 0.0)
            joined = joined or self.parts.client.member.has_joined_unheard
            waiting, due_ms = self._waits(self.parts.read_ahead)
            short = self.parts.replaced_logs.short
            unplaced = self.parts.flow_control.unplaced
        health = evaluate(
            HealthInputs(
                utc_ms=clock.utc_ms(),
                limit_s=self._plan.settings.max_poll_interval_s,
                polled_s=polled_s,
                handed_out=None if handed_out is None else handed_out[1],
                handling_s=0.0 if handed_out is None else clock.now_s() - handed_out[0],
                joined=joined,
                stopping=self.stop.asked,
                end=self._monitor.end,
                circuits=self._circuits.views,
                errors=self._monitor.errors,
                unreadable=self._monitor.unreadable,
                short=short,
                unplaced=unplaced,
                waiting=waiting,
                due_ms=due_ms,
            )
        )
        return replace(health, member=self._plan.member, process=self._plan.process)

    def _waits(self, read_ahead: ReadAhead) -> tuple[int, int | None]:
        """How many messages of retry topics wait in memory, and when the first is due, UTC ms."""
        waiting, due_at_s = read_ahead.waiting_messages, read_ahead.next_due_at_s
        if not waiting or math.isinf(due_at_s):  # another thread may have released the last
            return 0, None
        clock = self._plan.dependencies.clock
        return waiting, clock.utc_ms() + round((due_at_s - clock.now_s()) * 1000)

    def backlog(self, timeout_s: float) -> dict[Partition, Backlog]:
        """The backlog; empty before the start and after the end."""
        if self.parts is None or not self._owner_thread.joined or self._monitor.end is not None:
            return {}
        return self.parts.lag.ask(timeout_s)

    def close(self) -> None:
        """Closes it, or waits for the owner to do so; from a handler, `run` closes when it ends."""
        if not self.stop.asked:
            self.stop.ask()
        match self._owner_thread.claim_close():
            case "ours":
                self._close()
            case "another's":
                self._owner_thread.closed.wait(self._plan.close_timeout_s)
            case "later" | "done":
                return

    @property
    def is_here(self) -> bool:
        """Whether the current thread must close it itself, not wait for the owner."""
        return self._owner_thread.here

    def run(self, handler: Callable[..., object]) -> None:
        """Runs the handler until a stop or the first signal."""
        if self._inbox is not None:
            self._owner_thread.check_open()
            self._inbox.check()
            handler = self._inbox.handling(handler)
        with self._running() as parts:
            if parts.lanes is not None:
                parts.lanes.run(handler)
            else:
                run(parts.loop.turn, handler, attempt_each(self.stop, self._now_s), self.stop)

    def run_batches(self, handler: Callable[..., object], limits: BatchLimits) -> None:
        """Runs the handler of batches until a stop or the first signal."""
        self._check_one_by_one("run_batches")
        if self._inbox is not None:
            self._owner_thread.check_open()
            self._inbox.check()
            handler = self._inbox.handling_batches(handler)
        with self._running() as parts:
            run(partial(parts.loop.turn, limits), handler, attempt_batch, self.stop)

    @contextmanager
    def _running(self) -> Iterator[Parts]:
        """Yields the started parts, for a run until a stop or the first signal."""
        with self._use(), stopping_on_signals(self.stop.ask):
            self._finish_attempts()
            yield self._started()
        self._monitor.finish()

    def _check_one_by_one(self, way: str) -> None:
        """Raises `UsageError` if `way` of running it would attempt one message at a time."""
        if self._plan.by_key is not None:
            raise UsageError(f'scope="key", and {way} attempts partitions in their order; use run')
        if self._plan.concurrency > 1:
            raise UsageError(
                f"concurrency={self._plan.concurrency}, and {way} attempts one message at a time; "
                "use run, or concurrency=1"
            )

    async def run_async(
        self,
        handler: Callable[..., Awaitable[object]],
        on_start: Callable[[], object] | None = None,
    ) -> None:
        """Runs the consumer in a new thread, which closes it; the handler in the current task.

        That thread calls `on_start` once the consumer has started.
        """
        if self._inbox is not None:
            await self._inbox.check_async()
            handler = self._inbox.handling_async(handler)
        with (
            self._owner_thread.delegated(),
            stopping_async_on_signals(self.stop.ask),
            self._monitor,
        ):
            if self._plan.has_lanes:
                tasks = LaneTasks(handler, self.stop, self._now_s)
                await tasks.run(partial(self._run_lanes, on_start))
            else:
                awaiting = BatchHandOver(handler, self.stop, self._now_s)
                await awaiting.run(partial(self._run_loop, on_start))

    def rehearsed(self, handler: Callable[..., Any]) -> Callable[[Any], Any]:
        """Returns a handler whose effects are taken back, where an inbox has its transactions."""
        return handler if self._inbox is None else self._inbox.rehearsing(handler)

    def begin(self) -> None:
        """Starts the user's own loop."""
        self._owner_thread.check_open()
        if self._attempts is not None and not self._owner_thread.elsewhere:
            self._attempts.begin()

    def attempts(self) -> Iterator[Attempt]:
        """Yields the attempts; none of our code runs between two of one batch."""
        return chain.from_iterable(self._batches())

    def _batches(self) -> Generator[Iterable[Attempt]]:
        """Yields the rest of the current batch, then each batch's first attempt and its others."""
        if self._owner_thread.here:
            yield self._ready
        while (attempt := self._next_attempt()) is not None:
            yield (attempt,)
            yield self._ready

    def _next_attempt(self) -> Attempt | None:
        """Applies the last attempt's outcome, and returns the next; None: the loop has ended."""
        if self._owner_thread.closing:
            return None
        attempts, attempt = self._attempts or self._own_loop(), None
        self.stop.interrupted = False
        try:
            # A KeyboardInterrupt inside a turn could leave a partition paused for ever.
            with (
                deferring_interrupts(self.stop.interrupt, self._owner_thread.abort),
                self._use(),
            ):
                attempt = attempts.next()
        except BaseException:
            if attempt is not None:
                attempts.withdraw()
            raise
        if attempt is None or self._owner_thread.closing:
            if self.stop.asked:
                self._monitor.finish()
            return None
        self._ready = attempts.ready
        return attempt

    @contextmanager
    def _use(self) -> Iterator[None]:
        try:
            with self._owner_thread.use():
                self._monitor.begin()
                try:
                    with self._monitor, as_library_errors():
                        yield
                finally:
                    if self.stop.asked and self.parts is not None:
                        self.parts.requests.close()
        finally:
            if self._owner_thread.closes_at_end:
                self.close()

    def _started(self) -> Parts:
        if self.parts is None:
            self.parts = assemble(
                self._plan,
                self._circuits,
                self._monitor,
                self.stop,
                self._order,
                inbox=self._inbox,
            )
            self.stop.watch_forks()
        if not self._owner_thread.joined:  # a start that raised is repeated by the next use
            self.parts.start()
            self._owner_thread.joined = True
        return self.parts

    def _own_loop(self) -> Attempts:
        self._check_one_by_one("a loop of your own")
        begin = None
        if self._inbox is not None:
            self._inbox.check()
            begin = self._inbox.transaction
        with self._use():
            turn = self._started().loop.turn
            self._attempts = Attempts(turn, self.stop, self._now_s, begin)
            return self._attempts

    def _finish_attempts(self) -> None:
        """Applies the outcome that the user's own loop left, before the consumer runs otherwise."""
        self.stop.interrupted = False
        if self._attempts is not None:
            self._attempts.check_finished()
            self._attempts.finish()

    def _run_loop(self, on_start: Callable[[], object] | None, across: OwnerSide[Batch]) -> None:
        """Runs in the thread of `run_async`."""
        with self._owning(on_start) as parts:
            while not self.stop.asked:
                with closing(parts.loop.turn()) as turn:
                    for batch in turn:
                        across.hand_over(batch)

    def _run_lanes(self, on_start: Callable[[], object] | None, across: OwnerSide[Work]) -> None:
        """Runs in the thread of `run_async`, where lanes are attempted side by side."""
        with self._owning(on_start) as parts:
            if parts.lanes is None:
                raise AssertionError("these partitions are attempted one by one")
            works = PassedOn(self._plan.concurrency, across)
            parts.lanes.run_elsewhere(works, across.pass_on)

    @contextmanager
    def _owning(self, on_start: Callable[[], object] | None) -> Iterator[Parts]:
        """Yields the started parts in the thread of `run_async`, which closes them at the end."""
        with self._use():
            self._finish_attempts()
            try:
                parts = self._started()
                if on_start is not None:
                    on_start()
                yield parts
            finally:  # except for a start that raised, which another use repeats
                self._owner_thread.closes_at_end |= self._owner_thread.joined

    def _close(self) -> None:
        try:
            with self._owner_thread.keeping_fatal_errors(), self._monitor, as_library_errors():
                if self._attempts is not None and not self._owner_thread.forked:
                    self._attempts.finish()
                if self.parts is not None and not self._owner_thread.forked:
                    self.parts.housekeeping.await_delivery()
        finally:
            if self.parts is not None and not self._owner_thread.forked:
                timeout_s = self._plan.close_timeout_s
                with as_library_errors():
                    self.parts.close(commit=self._owner_thread.commits, timeout_s=timeout_s)
            if self._inbox is not None:
                self._inbox.close()
            self._monitor.finish()
            self._owner_thread.closed.set()
