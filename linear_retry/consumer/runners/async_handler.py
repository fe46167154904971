"""Awaits an async handler for each message, in the task that awaits `run_async`."""

import asyncio
import inspect
import weakref
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeAlias

from linear_retry.consumer.runners.results import Results, UndoneError
from linear_retry.consumer.runners.run_handler import Batch
from linear_retry.consumer.runners.stop import StopFlag
from linear_retry.errors import UsageError
from linear_retry.kafka import Message
from linear_retry.retry.clock import NowS

AsyncHandler: TypeAlias = Callable[[Message], Awaitable[object]]

# Handlers that never really wait would keep everything else on their loop waiting.
_YIELD_EVERY_S = 0.01


class _NothingToAwaitError(BaseException):
    """No `Exception`: the handler has not failed, and nothing is decided of the message."""


class AsyncAttempting:
    """One handler, in the task that is current where this is made.

    Its frame is kept with what the handler raises, by an open circuit: it must hold nothing that
    holds the task, which else would outlive a loop that is thrown away.
    """

    def __init__(self, handler: AsyncHandler, stop: StopFlag, now_s: NowS) -> None:
        task = asyncio.current_task()
        if task is None:
            raise AssertionError("a coroutine runs in a task")
        self._handler = handler
        self._stop = stop
        self._now_s = now_s
        self._results = Results()
        self._task = weakref.ref(task)
        self._cancelled_before = task.cancelling()
        self.in_hand = False

    @property
    def cancelled(self) -> bool:
        """Whether someone has cancelled the task, whatever the handler has made of it."""
        task = self._task()
        return task is not None and task.cancelling() > self._cancelled_before

    async def attempt_all(self, batch: Batch) -> None:
        """Until one fails, the time for a poll has come, or all are handled.

        Nothing is begun that was handed over so long ago that it may be another member's by now.
        Raises `UsageError` where nothing can be decided of a message; it is not done then.
        """
        coming = iter(batch.messages)
        try:
            if self._stop.asked or self._now_s() > batch.begin_by_s:
                return
            await self._attempt_each(batch, coming)
        except _NothingToAwaitError:
            raise UsageError(
                f"handler={self._handler!r} returned nothing to await; give an async def function, "
                "or use run; nothing was decided about the message"
            ) from None
        except UndoneError as undone:
            raise UsageError(
                f"{batch.place}: handler={self._handler!r} returned, once awaited, {undone}"
            ) from None
        except asyncio.CancelledError as error:
            if self.cancelled:
                raise
            raise UsageError(
                f"handler={self._handler!r} raised CancelledError, though its task was not "
                "cancelled: something that it awaited was; the message is not decided"
            ) from error
        except Exception as error:
            if self._is_thrown_away():
                raise
            if self.cancelled:  # an answer to that, and no failure of the message
                raise asyncio.CancelledError from error
            batch.note_failed(coming, error)
        finally:
            batch.note_taken(coming, in_hand=self.in_hand)
            self.in_hand = False

    async def _attempt_each(self, batch: Batch, coming: Iterator[Message]) -> None:
        yield_at_s = self._now_s() + _YIELD_EVERY_S
        for message in coming:
            self.in_hand = True
            # Not at the end only: on a loop that is closed there may be none, and the thread goes.
            batch.note_taken(coming, in_hand=True)
            result = await self._awaitable(message)
            if result is not None and type(result) not in self._results.harmless:
                self._results.check(result)
            self.in_hand = False
            if self._now_s() >= yield_at_s:
                await asyncio.sleep(0)
                yield_at_s = self._now_s() + _YIELD_EVERY_S
            # A stop shows in `poll_by_s`.
            if self._now_s() >= self._stop.poll_by_s or self.cancelled:
                return

    def _awaitable(self, message: Message) -> Awaitable[object]:
        returned = self._handler(message)
        if not inspect.isawaitable(returned):
            raise _NothingToAwaitError
        return returned

    def _is_thrown_away(self) -> bool:
        """Whether this runs because the coroutine is being collected, and not in its task."""
        try:
            return asyncio.current_task() is not self._task()
        except RuntimeError:  # no loop is running
            return True
