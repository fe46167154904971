"""The flag with which any thread, signal handler or fork ends a consumer's loop."""

import math
import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass

from linear_retry.errors import UsageError


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
