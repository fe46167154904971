"""Awaits an async handler for each message, in the task that awaits `run_async`."""

import asyncio
import inspect
import weakref
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeAlias

from linear_retry.consumer.runners.run_handler import Batch, Results
from linear_retry.consumer.runners.stop import StopFlag
from linear_retry.errors import UsageError
from linear_retry.kafka import Message
from linear_retry.retry.callables import UndoneError
from linear_retry.retry.clock import NowS

AsyncHandler: TypeAlias = Callable[[Message], Awaitable[object]]

# Handlers that never suspend would block everything else on their loop.
_YIELD_EVERY_S = 0.01


class _NothingToAwaitError(BaseException):
    """Not an `Exception`: the handler has not failed, and nothing is decided about the message."""


class AsyncAttempting:
    """Calls one handler, in the task that created this.

    The handler's exception leads to this frame until the owner thread has described it: the frame
    must not refer to the task, which would otherwise outlive a discarded loop.
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
        """Whether the task was cancelled, even if the handler swallowed that."""
        task = self._task()
        return task is not None and task.cancelling() > self._cancelled_before

    async def attempt_all(self, batch: Batch) -> None:
        """Attempts messages until one fails, a poll is due, or all are handled.

        Starts no message that was handed over so long ago that it may be another member's by now.
        Raises `UsageError` if nothing can be decided about a message, which is then not done.
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
            if self.cancelled:  # the answer to a cancellation, not a failure of the message
                raise asyncio.CancelledError from error
            batch.note_failed(coming, error)
        finally:
            batch.note_taken(coming, in_hand=self.in_hand)
            self.in_hand = False

    async def _attempt_each(self, batch: Batch, coming: Iterator[Message]) -> None:
        yield_at_s = self._now_s() + _YIELD_EVERY_S
        for message in coming:
            self.in_hand = True
            # Not only at the end, which never comes on a closed loop: the thread must go on.
            batch.note_taken(coming, in_hand=True)
            result = await self._awaitable(message)
            if result is not None and type(result) not in self._results.harmless:
                self._results.check(result)
            self.in_hand = False
            if self._now_s() >= yield_at_s:
                await asyncio.sleep(0)
                yield_at_s = self._now_s() + _YIELD_EVERY_S
            # A stop sets `poll_by_s`.
            if self._now_s() >= self._stop.poll_by_s or self.cancelled:
                return

    def _awaitable(self, message: Message) -> Awaitable[object]:
        returned = self._handler(message)
        if not inspect.isawaitable(returned):
            raise _NothingToAwaitError
        return returned

    def _is_thrown_away(self) -> bool:
        """Whether this runs because the coroutine is being garbage-collected, outside its task."""
        try:
            return asyncio.current_task() is not self._task()
        except RuntimeError:  # no running loop
            return True
