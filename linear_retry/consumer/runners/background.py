"""Runs a consumer in a task beside a block of code: both end together."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeAlias

Consume: TypeAlias = Callable[[Callable[[], None]], Coroutine[Any, Any, None]]


class Background:
    """The block of `async with consumer.running(handler)`.

    `consume` calls its argument, from any thread, once it has started. As with `asyncio.timeout`,
    the block ends by a cancellation of its task, which goes no further than the block.
    """

    def __init__(self, consume: Consume, stop: Callable[[], None]) -> None:
        self._consume = consume
        self._stop = stop
        self._interrupted = self._left = False

    async def __aenter__(self) -> None:
        """Returns once it has started; raises what it raises until then."""
        self._body = _current_task()
        self._cancelling = self._body.cancelling()
        self._consuming = await self._started()
        if self._consuming.done():
            self._consuming.result()
        self._consuming.add_done_callback(self._interrupt)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._left = True
        is_ours = self._is_ours(error)
        if isinstance(error, GeneratorExit):  # thrown away: nothing can be awaited any more
            self._stop()
            return False
        if isinstance(error, asyncio.CancelledError) and not is_ours:
            self._consuming.cancel()
        else:
            self._stop()
        await self._end(None if is_ours else error)
        return is_ours

    async def _started(self) -> asyncio.Task[None]:
        loop, started = asyncio.get_running_loop(), asyncio.Event()

        def note_started() -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits for it any more
                loop.call_soon_threadsafe(started.set)

        consuming = asyncio.create_task(self._consume(note_started), name="linear_retry running")
        consuming.add_done_callback(lambda _: started.set())
        try:
            await started.wait()
        except asyncio.CancelledError:
            consuming.cancel()
            await asyncio.gather(consuming, return_exceptions=True)
            raise
        return consuming

    def _interrupt(self, _: asyncio.Task[None]) -> None:
        if not self._left:  # both may have ended in one round of the loop
            self._interrupted = True
            self._body.cancel()

    def _is_ours(self, error: BaseException | None) -> bool:
        """Whether only the end of the consumer has cancelled the block."""
        if not self._interrupted:
            return False
        cancelled_by_others = self._body.uncancel() > self._cancelling
        return isinstance(error, asyncio.CancelledError) and not cancelled_by_others

    async def _end(self, error: BaseException | None) -> None:
        """Until the consumer has ended. If the block has raised, the consumer's error is a note."""
        (last,) = await asyncio.gather(self._consuming, return_exceptions=True)
        if last is None or error is None:
            _raise_again(last)
        elif not isinstance(last, asyncio.CancelledError):
            error.add_note(f"and the consumer: {last!r}")


def _raise_again(error: BaseException | None) -> None:
    """Without the cancellation of the block as its context: that says nothing of its cause."""
    if error is None:
        return
    context = error.__context__
    try:
        raise error
    finally:
        error.__context__ = context


def _current_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    if task is None:
        raise AssertionError("a coroutine runs in a task")
    return task
