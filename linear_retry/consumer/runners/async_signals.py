"""Stops the consumers of one event loop on SIGINT and SIGTERM."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

from linear_retry.consumer.runners.signals import SIGNALS

_TIMES = 2


@contextmanager
def stopping_async_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Makes the first two SIGINT or SIGTERM call `stop`; later ones have their usual effect.

    Several consumers on one loop may start and end in any order; each gets both signals.

    Only in the main thread, and only for signals that the program does not handle itself: a web
    server on the same loop must get them, and ends us with the rest of the program. A handler
    of `loop.add_signal_handler` would be called in addition to ours, not instead.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    telling = _present() or _SignalHandlers()
    telling.add(stop)
    try:
        yield
    finally:
        telling.remove(stop)


class _SignalHandlers:
    """The signal handlers of an event loop: the stops to call, and how many times more."""

    def __init__(self) -> None:
        found = {number: signal.getsignal(number) for number in SIGNALS}
        self._before = {number: found[number] for number in SIGNALS if _is_free(found[number])}
        self._left: dict[Callable[[], None], int] = {}
        for number in self._before:
            signal.signal(number, self)

    def __call__(self, number: int, _: FrameType | None) -> None:
        stops = [stop for stop, left in self._left.items() if left]
        if not stops:  # left by a loop that another thread has discarded
            self._restore()
            signal.raise_signal(number)
        for stop in stops:
            self._left[stop] -= 1
        if not any(self._left.values()):
            self._restore()
        for stop in stops:
            stop()

    def add(self, stop: Callable[[], None]) -> None:
        self._left[stop] = _TIMES

    def remove(self, stop: Callable[[], None]) -> None:
        del self._left[stop]
        if not any(self._left.values()):
            self._restore()

    def _restore(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # Python forbids it here; the next signal does it
        for number, handler in self._before.items():
            if signal.getsignal(number) is self:  # else the program has installed its own meanwhile
                signal.signal(number, handler)


def _present() -> _SignalHandlers | None:
    """The handlers that another consumer on this loop has installed."""
    for number in SIGNALS:
        handler = signal.getsignal(number)
        if isinstance(handler, _SignalHandlers):
            return handler
    return None


def _is_free(handler: Any) -> bool:
    """Whether it is Python's default, or that of asyncio.run, which cancels the main task."""
    if isinstance(handler, partial):
        return isinstance(getattr(handler.func, "__self__", None), asyncio.Runner)
    return handler in (signal.SIG_DFL, signal.default_int_handler)
