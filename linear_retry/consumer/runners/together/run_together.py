"""Runs both lines of a group: the live line here, the retry line in a process or a thread."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from linear_retry.consumer.linear_consumer import LinearConsumer
from linear_retry.consumer.ownership.stop import stopping_async_on_signals
from linear_retry.consumer.runners.async_hand_over import AnyAsyncHandler
from linear_retry.consumer.runners.run_handler import (
    Handler,
    TransactionHandler,
    check_async_handler,
    check_handler,
)
from linear_retry.consumer.runners.together.retry_line import LiveLine, RetryLine, Work, run_line
from linear_retry.consumer.runners.together.retry_process import RetryProcess
from linear_retry.errors import ConfigurationError
from linear_retry.log.relay import levels


class RetryThread:
    """The retry line beside the live one, as `RetryProcess`, for handlers that wait for I/O."""

    def __init__(self, work: Work) -> None:
        """Raises what creating the consumer raises."""
        self._work = work
        self._consumer = work.live.retry_line(work.retry)
        self._asked = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="linear_retry retry line")
        self._thread.daemon = True  # an interrupted program does not wait for its handler

    def start(self, on_end: Callable[[], object]) -> None:
        """Starts the thread; `on_end` is called if it ends before it was told to stop."""
        self._on_end = on_end
        self._thread.start()

    def stop(self) -> None:
        self._asked = True
        self._consumer.stop()

    def end(self, within_s: float | None = None) -> BaseException | None:
        """Waits until it has ended, at most for that time, and returns the error."""
        if not self._asked:
            self.stop()
        self._thread.join(within_s)
        return self._error

    def _run(self) -> None:
        try:
            run_line(self._consumer, self._work)
        except BaseException as error:  # noqa: BLE001  (raised by the thread that ends it)
            self._error = error
        finally:
            if not self._asked:
                self._on_end()


_Running: TypeAlias = RetryThread | RetryProcess
"""The retry line, wherever it runs."""


def run_together(
    live: LinearConsumer,
    retry: RetryLine,
    handler: Handler | TransactionHandler,
    *,
    threads: bool = False,
) -> None:
    """Runs the live line and the retry line of a group, and closes both when one of them ends.

    `live` runs here, as by `live.run(handler)`; `retry` is a function that creates the consumer of
    the `RetryTopics` that `live` sends to. It is called, and that consumer run, in a process of its
    own, so that a handler that computes never slows the live line down. That process imports the
    program again: `handler` and `retry` must be importable, which is checked before anything
    starts, and a program calls this under `if __name__ == "__main__":`. What the retry line logs is
    written by this process, unless its own has log handlers.

    With `threads=True` the retry line runs in a thread of this process: nothing is pickled, and
    whenever it computes, the live line waits for the interpreter's lock. For handlers that wait
    for I/O.

    One `live.stop()`, SIGINT or SIGTERM ends both, each after its current message. An error of
    either ends the other and is raised; of the second one, it has a note. If the process of the
    retry line dies, killed or out of memory, that is `RetryLineError`: it is not started again, as
    whatever watches over this process does that, and sees it. If this process dies, that of the
    retry line ends after its current message.

    Raises what `run` raises for either line, and `ConfigurationError` or `UsageError` for
    arguments that the other process cannot be given.
    """
    check_handler(handler, live._takes("one message"))
    work = _work(live, retry, handler, is_async=False)
    line: _Running = RetryThread(work) if threads else RetryProcess(work)
    with _beside(live, line), live:
        live.run(handler)


async def run_together_async(
    live: LinearConsumer, retry: RetryLine, handler: AnyAsyncHandler
) -> None:
    """`run_together` for an `async def` handler; the retry line has an event loop of its own.

    The first stop, SIGINT or SIGTERM ends both lines after their current messages; the second, or
    a cancellation of the task, cancels both handlers. To run both on one event loop, use
    `running`: `async with retry_line.running(handler): await live.run_async(handler)`.
    """
    check_async_handler(handler, live._takes("one message"))
    line = RetryProcess(_work(live, retry, handler, is_async=True))

    def stop_again() -> None:
        if live._session.stop.asked:  # the live line passes the first stop on
            line.stop()

    # Else a signal during the wait for the retry line would end this process alone.
    with stopping_async_on_signals(stop_again):
        try:
            _start(live, line)
            async with live:
                await live.run_async(handler)
        except GeneratorExit:  # garbage-collected: nothing can be awaited any more
            line.stop()
            raise
        except BaseException as error:
            if not isinstance(error, Exception):
                line.stop()
            _add_to(error, await _ended(live, line, _patience_s(live, error)))
            raise
        _raise(await _ended(live, line))


async def _ended(
    live: LinearConsumer, line: RetryProcess, within_s: float | None = None
) -> BaseException | None:
    """Waits off the event loop. A cancellation cancels its handler; then it is killed."""
    try:
        return await asyncio.to_thread(line.end, within_s)
    except asyncio.CancelledError:
        line.stop()
        try:
            await asyncio.to_thread(line.end, live._config.close_timeout_s)
        finally:
            line.kill()
        raise


def _work(
    live: LinearConsumer,
    retry: RetryLine,
    handler: Callable[..., object],
    *,
    is_async: bool,
) -> Work:
    here = LiveLine.of(live)
    if not callable(retry):
        raise ConfigurationError(
            f"retry={retry!r}: must be a function that creates the retry line, without arguments; "
            "write retry_line, not retry_line()"
        )
    return Work(here, retry, handler, is_async, levels())


@contextmanager
def _beside(live: LinearConsumer, line: _Running) -> Iterator[None]:
    """Starts the retry line; at the end of the block, ends it too, and raises its error."""
    try:
        _start(live, line)
        yield
    except BaseException as error:
        _add_to(error, line.end(_patience_s(live, error)))
        raise
    _raise(line.end())


def _start(live: LinearConsumer, line: _Running) -> None:
    live._session.stop.on_ask = line.stop
    line.start(live.stop)


def _patience_s(live: LinearConsumer, error: BaseException) -> float | None:
    """None: the message in hand is finished first. Who interrupts the program waits no longer."""
    return None if isinstance(error, Exception) else live._config.close_timeout_s


def _add_to(error: BaseException, other: BaseException | None) -> None:
    if other is not None:
        error.add_note(f"and the retry line: {other!r}")


def _raise(error: BaseException | None) -> None:
    if error is not None:
        raise error
