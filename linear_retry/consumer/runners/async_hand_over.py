"""Passes batches between the owner thread and the task of `run_async`, which calls the handler."""

import asyncio
import inspect
import math
import threading
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeAlias, TypeVar

from linear_retry.consumer.ownership.stop import StopFlag
from linear_retry.consumer.runners.run_handler import Batch, PollBy, Results
from linear_retry.errors import UsageError
from linear_retry.kafka import Message
from linear_retry.retry.callables import UndoneError
from linear_retry.retry.clock import NowS
from linear_retry.retry.current_attempt import answer_by

AsyncHandler: TypeAlias = Callable[[Message], Awaitable[object]]
AnyAsyncHandler: TypeAlias = AsyncHandler | Callable[[Message, Any], Awaitable[object]]
"""Of a message; or of a message and the open transaction of an inbox."""
T = TypeVar("T")

# Handlers that never suspend would block everything else on their loop.
_YIELD_EVERY_S = 0.01


class _NothingToAwaitError(BaseException):
    """Not an `Exception`: the handler has not failed, and nothing is decided about the message."""


class AsyncAttempting:
    """Calls one handler, in the task that created this.

    The handler's exception leads to this frame until the owner thread has described it: the frame
    must not refer to the task, which would otherwise outlive a discarded loop.
    """

    def __init__(self, handler: AsyncHandler, stop: PollBy, now_s: NowS, results: Results) -> None:
        task = asyncio.current_task()
        if task is None:
            raise AssertionError("a coroutine runs in a task")
        self._handler = handler
        self._stop = stop
        self._now_s = now_s
        self._results = results
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
        coming = batch.coming
        before = answer_by(batch.info)
        try:
            if self._stop.poll_by_s == -math.inf or self._now_s() > batch.begin_by_s:
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
            answer_by(before)
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


_CHECK_EVERY_S = 1.0


class _LeftError(BaseException):
    """Ends the thread's turn, like a KeyboardInterrupt, as the task is gone.

    confluent_kafka's AIOConsumer is not used: a cancelled poll loses its message there.
    """


class AsyncHandOver(ABC, Generic[T]):
    """One call of `run_async`: a thread that owns the consumer, and the task that awaits it.

    The thread passes on what is to be attempted, in this task's loop: handlers have its context
    variables, its cancellation and its loop.
    """

    def __init__(self, stop: StopFlag) -> None:
        """Must be created in the task that will `run` it."""
        self._stop = stop
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._arrived: deque[T | None] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._returned: SimpleQueue[T | None] = SimpleQueue()

    async def run(self, own: Callable[["OwnerSide[T]"], None]) -> None:
        """Calls `own` in a thread, and attempts what it passes on, until it ends.

        Raises what `own` raises; and, after `own` has ended, a handler's exception that is not an
        `Exception`, or the cancellation of this task.
        """
        across = OwnerSide(self, self._returned)
        thread = threading.Thread(
            target=across.run_owner, args=(own,), name="linear_retry run_async", daemon=True
        )
        thread.start()
        try:
            self._stop.on_force_stop = across.force_stop
            await self._attempt_what_comes()
        except GeneratorExit:  # garbage-collected with its loop: nothing can be awaited
            self._leave()
            raise
        except BaseException as error:
            self._leave()
            if self._loop.is_closed() or self._stop.forked:
                raise
            await self._ended()
            thread.join()
            if not self._is_ours(error):
                across.add_to(error)
                raise
        finally:
            self._stop.on_force_stop = None
            self._forget_what_is_ours()
        # It has handed over its result, but it owns the consumer for as long as it is alive.
        thread.join()
        across.raise_error()

    # -- called by the loop ------------------------------------------------------------------

    def receive(self, coming: T | None) -> None:
        """Receives what the thread passes on; None: the thread has ended."""
        self._arrived.append(coming)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    @abstractmethod
    def cancel(self) -> None:
        """Cancels the handlers that run, at a second stop."""

    @property
    def is_over(self) -> bool:
        """Whether nothing will be attempted any more. Thread-safe."""
        return self._loop.is_closed()

    def call_soon(self, call: Callable[..., object], *arguments: object) -> bool:
        """Schedules a call in the task's loop, from any thread. False: it is over."""
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            return False
        return True

    # -- in the task -------------------------------------------------------------------------

    @abstractmethod
    async def _attempt_what_comes(self) -> None:
        """Attempts what the thread passes on, until the thread has ended."""

    def _is_ours(self, _: BaseException) -> bool:
        """Whether only a second stop has cancelled the task, and nobody else."""
        return False

    def _forget_what_is_ours(self) -> None:
        """Uncancels ours, so that a timeout or TaskGroup around us does not claim it."""

    async def _next(self) -> T | None:
        """Awaits the next. Not by asyncio.Queue, whose get fails once its loop is closed."""
        while not self._arrived:
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._arrived.popleft()

    def _leave(self) -> None:
        if not self._stop.asked:
            self._stop.ask()
        self._returned.put(None)

    async def _ended(self) -> None:
        """Waits until the thread has closed the consumer (bounded), even if cancelled again."""
        while True:
            try:
                if await self._next() is None:
                    return
            except asyncio.CancelledError:
                continue


class BatchHandOver(AsyncHandOver[Batch]):
    """Attempts the batches in the task itself.

    Only one of the two works at a time: the thread hands over a batch and waits, the task attempts
    it and hands it back.
    """

    def __init__(self, handler: AsyncHandler, stop: StopFlag, now_s: NowS) -> None:
        super().__init__(stop)
        self._attempting = AsyncAttempting(handler, stop, now_s, Results())
        self._forced = 0

    def cancel(self) -> None:
        if self._attempting.in_hand and self._task is not None:
            self._forced += 1
            self._task.cancel()

    async def _attempt_what_comes(self) -> None:
        while (batch := await self._next()) is not None:
            await self._attempting.attempt_all(batch)
            self._stop.check_process()
            self._returned.put(batch)
            if self._attempting.cancelled:  # the handler has swallowed the cancellation
                raise asyncio.CancelledError

    def _is_ours(self, error: BaseException) -> bool:
        if not isinstance(error, asyncio.CancelledError) or not self._forced:
            return False
        self._forget_what_is_ours()
        return not self._attempting.cancelled

    def _forget_what_is_ours(self) -> None:
        while self._forced and self._task is not None:
            self._forced -= 1
            self._task.uncancel()


class OwnerSide(Generic[T]):
    """The thread's side. Holds nothing that would keep a discarded task alive.

    `returned` has what was attempted; None: the task is leaving.
    """

    def __init__(self, awaiting: AsyncHandOver[T], returned: SimpleQueue[T | None]) -> None:
        self._awaiting = weakref.ref(awaiting)
        self.returned = returned
        self._error: BaseException | None = None

    @property
    def is_over(self) -> bool:
        """Whether the task is gone: nothing is attempted any more."""
        awaiting = self._awaiting()
        return awaiting is None or awaiting.is_over

    def run_owner(self, own: Callable[["OwnerSide[T]"], None]) -> None:
        try:
            own(self)
        except _LeftError:
            pass  # the task raises what ended it
        except BaseException as error:  # noqa: BLE001  (the task raises it again, whatever it is)
            self._error = error
        finally:
            self._send(None)

    def pass_on(self, coming: T) -> None:
        """Has it attempted in the task's loop; waits for nothing."""
        if not self._send(coming):
            raise _LeftError

    def hand_over(self, coming: T) -> None:
        """Passes it on, and waits until it has been attempted."""
        self.pass_on(coming)
        while True:
            try:
                if self.returned.get(timeout=_CHECK_EVERY_S) is None:
                    raise _LeftError
                return
            except Empty:
                if self.is_over:
                    raise _LeftError from None

    def force_stop(self) -> None:
        """Cancels the handlers. Safe in any thread and in signal handlers."""
        awaiting = self._awaiting()
        if awaiting is not None:
            awaiting.call_soon(awaiting.cancel)

    def add_to(self, error: BaseException) -> None:
        """Adds what `own` raised as a note."""
        if self._error is not None:
            error.add_note(f"and at the end: {self._error!r}")
            self._error = None

    def raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _send(self, coming: T | None) -> bool:
        awaiting = self._awaiting()
        return awaiting is not None and awaiting.call_soon(awaiting.receive, coming)
