"""How does a coroutine function get its messages, while its loop stays alive?"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from queue import SimpleQueue
from typing import TypeAlias

from linear_retry.consumer.clock import NowS
from linear_retry.consumer.stop import StopFlag
from linear_retry.consumer.work import Work
from linear_retry.errors import UsageError
from linear_retry.kafka import Message

AsyncHandler: TypeAlias = Callable[[Message], Awaitable[object]]
HandOver: TypeAlias = Callable[[Work], None]

# Handlers that never really wait would keep everything else on their loop waiting.
_BREATHE_EVERY_S = 0.01


class _NothingToAwaitError(BaseException):
    """No `Exception`: the handler has not failed, and nothing is decided of the message."""


class _LeftError(BaseException):
    """Nobody is there to attempt anything: the thread leaves its turn, as for a KeyboardInterrupt.

    Not confluent_kafka's AIOConsumer: a poll that is cancelled there loses its message.
    """


class Awaiting:
    """One call of `run_async`: a thread that owns the consumer, and the task that awaits it.

    Only one of them is at work at a time: the thread hands a piece of work over and waits, the
    task attempts it and hands it back. Handlers run in the task itself, so its context variables,
    its cancellation and its loop are theirs.
    """

    def __init__(self, handler: AsyncHandler, stop: StopFlag, now_s: NowS) -> None:
        """To be made in the task that will `run` it."""
        task = asyncio.current_task()
        if task is None:
            raise AssertionError("a coroutine runs in a task")
        self._handler = handler
        self._stop = stop
        self._now_s = now_s
        self._task = task
        self._loop = asyncio.get_running_loop()
        self._arrived: asyncio.Queue[Work | None] = asyncio.Queue()
        self._attempted: SimpleQueue[bool] = SimpleQueue()
        self._in_hand = False
        self._insisted = False
        self._error: BaseException | None = None

    async def run(self, own: Callable[[HandOver], None]) -> None:
        """Call `own` in a thread, and await what it hands over. Ends when it has ended.

        Raises what `own` raises; and, after `own` has ended, what a handler raises that is no
        `Exception`, or the cancellation of this task.
        """
        self._stop.on_insisting = lambda: self._loop.call_soon_threadsafe(self._cancel)
        threading.Thread(
            target=self._in_thread, args=(own,), name="linear_retry run_async", daemon=True
        ).start()
        try:
            await self._attempt_what_comes()
        except GeneratorExit:  # the loop is gone, nothing can be awaited any more
            self._leave()
            raise
        except BaseException as error:
            self._leave()
            await self._ended()
            if not self._is_ours(error):
                raise
        finally:
            self._stop.on_insisting = None
        if self._error is not None:
            raise self._error

    # -- in the thread ---------------------------------------------------------------------

    def _in_thread(self, own: Callable[[HandOver], None]) -> None:
        try:
            own(self._hand_over)
        except _LeftError:
            pass  # the task raises what made it leave
        except BaseException as error:  # noqa: BLE001  (raised by the task, whatever it is)
            self._error = error
        finally:
            self._loop.call_soon_threadsafe(self._arrived.put_nowait, None)

    def _hand_over(self, work: Work) -> None:
        self._loop.call_soon_threadsafe(self._arrived.put_nowait, work)
        if not self._attempted.get():
            raise _LeftError

    # -- in the task -----------------------------------------------------------------------

    async def _attempt_what_comes(self) -> None:
        while (work := await self._arrived.get()) is not None:
            await self._attempt_all(work)
            self._attempted.put(True)

    async def _attempt_all(self, work: Work) -> None:
        breathe_at_s = self._now_s() + _BREATHE_EVERY_S
        coming = iter(work.messages)
        try:
            for message in coming:
                self._in_hand = True
                await self._awaitable(message)
                self._in_hand = False
                now_s = self._now_s()
                if now_s >= self._stop.poll_by_s:
                    break
                if now_s >= breathe_at_s:
                    await asyncio.sleep(0)
                    breathe_at_s = now_s + _BREATHE_EVERY_S
        except Exception as error:  # noqa: BLE001  (the handler's: whatever a user may raise)
            work.error = error
        finally:
            work.note_taken(coming, in_hand=self._in_hand)
            self._in_hand = False

    def _awaitable(self, message: Message) -> Awaitable[object]:
        returned = self._handler(message)
        if not inspect.isawaitable(returned):
            raise _NothingToAwaitError
        return returned

    def _cancel(self) -> None:
        """A second stop: the handler in hand is not waited for."""
        if self._in_hand and not self._insisted:
            self._insisted = True
            self._task.cancel()

    def _leave(self) -> None:
        if not self._stop.asked:
            self._stop.ask()
        self._attempted.put(False)

    async def _ended(self) -> None:
        """Until the thread has closed the consumer, which is bounded; even if cancelled again."""
        while True:
            try:
                if await self._arrived.get() is None:
                    return
            except asyncio.CancelledError:
                continue

    def _is_ours(self, error: BaseException) -> bool:
        """Whether this is the end that a second stop wanted, and nobody else cancelled the task."""
        if isinstance(error, _NothingToAwaitError):
            raise UsageError(
                f"handler={self._handler!r} returned nothing to await; give an async def function, "
                "or use run; nothing was decided about the message"
            ) from None
        cancelled = isinstance(error, asyncio.CancelledError) and self._insisted
        return cancelled and self._task.uncancel() == 0
