"""Works in an event loop: tasks that await the handler, each with messages of one lane."""

import asyncio
import contextvars
from collections.abc import Callable
from functools import partial

from linear_retry.consumer.lanes.workers import Work, Works
from linear_retry.consumer.ownership.stop import StopFlag, forked_error
from linear_retry.consumer.runners.async_hand_over import (
    AsyncAttempting,
    AsyncHandler,
    AsyncHandOver,
    OwnerSide,
)
from linear_retry.consumer.runners.run_handler import Results
from linear_retry.retry.clock import NowS


class PassedOn(Works):
    """Up to `count` works that are passed on to an event loop."""

    def __init__(self, count: int, across: OwnerSide[Work]) -> None:
        super().__init__(count, across.returned)
        self._across = across
        self._awaited: dict[Work, None] = {}

    def begin(self, work: Work, attempt: Callable[[Work], None]) -> None:
        attempt(work)
        # Only then: what cannot be passed on is not under way.
        self._running[work.lane] = work
        self._awaited[work] = None

    def ended(self, timeout_s: float = 0.0) -> Work | None:
        work = super().ended(timeout_s)
        if work is None and self._across.is_over:
            # Nobody attempts them any more, and what they have done so far counts.
            work = next(iter(self._awaited), None)
        if work not in self._awaited:
            return None
        del self._awaited[work]
        return work

    def take_back(self) -> None:
        """Does nothing: none waits for its turn."""

    def close(self) -> None:
        """Does nothing: its tasks have ended with the run."""


class LaneTasks(AsyncHandOver[Work]):
    """Awaits the handler in one task for each work, in the loop and a copy of the context.

    What ends one for good, and what cancels the task of `run_async`, cancels all; and so does the
    end of the consumer, which waits for them for a bounded time.
    """

    def __init__(self, handler: AsyncHandler, stop: StopFlag, now_s: NowS) -> None:
        super().__init__(stop)
        self._handler = handler
        self._now_s = now_s
        self._results = Results()
        self._context = contextvars.copy_context()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_cancelled = False

    def receive(self, coming: Work | None) -> None:
        """Begins a task for each work: at once, as the task of `run_async` may not run any more."""
        if coming is None:
            super().receive(None)
        elif self._is_cancelled:
            self._returned.put(coming)
        else:
            context = self._context.copy()
            task = self._loop.create_task(self._attempt(coming), context=context)
            self._tasks.add(task)
            task.add_done_callback(partial(self._end, coming))

    def cancel(self) -> None:
        self._is_cancelled = True
        for task in self._tasks:
            task.cancel()

    async def _attempt_what_comes(self) -> None:
        try:
            await self._next()
        except asyncio.CancelledError:
            self.cancel()
            raise
        self.cancel()

    async def _attempt(self, work: Work) -> None:
        try:
            attempting = AsyncAttempting(self._handler, work, self._now_s, self._results)
            await attempting.attempt_all(work.task.batch)
        except asyncio.CancelledError:
            # By somebody else it is the end of `run_async`, as where the handler runs in its task.
            if not self._is_cancelled and self._task is not None:
                self._task.cancel()
        except GeneratorExit:  # garbage-collected with its loop
            raise
        except BaseException as error:  # noqa: BLE001  (raised again by `run_async`)
            work.problem = error
            self.cancel()

    def _end(self, work: Work, task: asyncio.Task[None]) -> None:
        """Returns a work, also one whose task was cancelled before its first step."""
        self._tasks.discard(task)
        self._returned.put(work)
        if self._stop.forked and self._waiter is not None and not self._waiter.done():
            # In the child of a fork there is no thread that would end it.
            self._waiter.set_exception(forked_error())
