"""The flag that ends a consumer's loop, from any thread, and the signals that set it."""

import asyncio
import math
import os
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any

from linear_retry.errors import UsageError

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_TIMES = 2


@dataclass(slots=True, weakref_slot=True)
class StopFlag:
    """Set once by any thread or signal handler, and read by the loop.

    `poll_by_s` is when the loop must stop handing over and poll. It is kept here so that the one
    comparison with the clock after each message also sees a stop. `on_force_stop` is called, in any
    thread, at a second stop; `on_ask` at each. `interrupted`: an interrupt waits for the end of the
    turn. `forked`: this is the child of a fork, and only its parent may continue.
    """

    asked: bool = False
    poll_by_s: float = -math.inf
    on_force_stop: Callable[[], object] | None = None
    on_ask: Callable[[], object] | None = None
    interrupted: bool = False
    forked: bool = False

    def interrupt(self) -> None:
        """Notes an interrupt. For signal handlers."""
        self.interrupted = True

    def ask(self) -> None:
        """Requests a stop. Thread-safe."""
        again, self.asked = self.asked, True
        self.poll_by_s = -math.inf
        if self.on_ask is not None:
            self.on_ask()
        if again and self.on_force_stop is not None:
            self.on_force_stop()

    def allow_until(self, poll_by_s: float) -> None:
        """Sets `poll_by_s`, on the owner thread, without overwriting a concurrent stop."""
        self.poll_by_s = poll_by_s
        if self.asked or self.forked:
            self.poll_by_s = -math.inf

    def hurry(self) -> None:
        """Ends the batch in hand after the current message: there is something to look at.

        Thread-safe. Not -inf, which is for a stop. A batch that begins in this moment is not ended.
        """
        self.poll_by_s = min(self.poll_by_s, 0.0)

    def watch_forks(self) -> None:
        """Makes the child of any later fork end its batch after the current message. Called once.

        A fork sets this flag like a stop, as checking the process id costs 120 ns per message.
        """
        watch = getattr(os, "register_at_fork", None)  # Windows has no fork
        if watch is not None:
            # What is registered stays for good, so it must hold no strong reference.
            watch(after_in_child=_noting_fork(weakref.ref(self)))

    def check_process(self) -> None:
        """Raises `UsageError` in the child of a fork."""
        if self.forked:
            raise forked_error()

    def _note_fork(self) -> None:
        self.forked, self.poll_by_s = True, -math.inf


def forked_error() -> UsageError:
    """The error to raise in a forked child."""
    return UsageError(
        "this LinearConsumer was created before a fork: librdkafka's threads are not in the child; "
        "create it in the process that runs it, and end a child that is forked in a handler with "
        "os._exit"
    )


def _noting_fork(found: weakref.ref[StopFlag]) -> Callable[[], None]:
    def note() -> None:
        stop = found()
        if stop is not None:
            stop._note_fork()

    return note


class SignalEvent(threading.Event):
    """An event that signal handlers may set. It is never cleared.

    Python's own has a lock: a handler that interrupts its thread in `wait` or `set` would wait for
    that thread, which is itself.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_set = False
        self._awakened = SimpleQueue[None]()

    def is_set(self) -> bool:
        """Returns whether it was set."""
        return self._is_set

    def set(self) -> None:
        """Wakes all that wait, now or later."""
        self._is_set = True
        self._awakened.put(None)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it is set, at most `timeout` seconds; returns whether it is."""
        if not self._is_set:
            with suppress(Empty):
                self._awakened.get(timeout=timeout)
                self._awakened.put(None)  # for the next who waits
        return self._is_set


@contextmanager
def stopping_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Makes the first SIGINT or SIGTERM call `stop`; later ones have their usual effect.

    Only in the main thread, where Python allows it; elsewhere it changes nothing. A signal handler
    that raised instead would make librdkafka drop messages (6,123 of 6,124, measured).
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            # None: installed by C code, which Python cannot restore.
            if handler is not None:
                signal.signal(number, handler)

    def on_signal(_: int, __: FrameType | None) -> None:
        restore()
        stop()

    for number in SIGNALS:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        restore()


@contextmanager
def deferring_interrupts(interrupt: Callable[[], None], cut: Callable[[], None]) -> Iterator[None]:
    """Defers what the handlers of SIGINT and SIGTERM raise to the end, when state is consistent.

    They are called when the signal arrives, so one that calls `stop` takes effect at once. When one
    raises, as Python's own for SIGINT does, `interrupt` is called to hasten the end; at a second,
    `cut`, which leaves state inconsistent. Only in the main thread, where Python calls them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, Callable[[int, FrameType | None], Any]] = {}
    raised: list[BaseException] = []
    over = False

    def hear(number: int, frame: FrameType | None) -> None:
        try:
            before[number](number, frame)
        except BaseException as error:
            if over:
                raise
            if raised:
                cut()
                raise
            raised.append(error)
            interrupt()

    try:
        for number in SIGNALS:
            handler = signal.getsignal(number)
            if callable(handler):
                before[number] = handler
                signal.signal(number, hear)
        yield
    except GeneratorExit:
        # Cut short before its `with` was entered or left: the second has been raised already, and
        # an exception while this is garbage-collected is only printed to stderr, as ignored.
        raised.clear()
        raise
    finally:
        # From here on a handler raises at once, and may cut short what follows: handlers that are
        # then left installed change nothing.
        over = True
        for each, handler in before.items():
            if signal.getsignal(each) is hear:  # else a handler has changed it, which is allowed
                signal.signal(each, handler)
        if raised:
            raise raised[0]


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
