"""The flag by which any thread, signal handler or fork ends a consumer's loop."""

import math
import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass

from linear_retry.errors import UsageError


@dataclass(slots=True, weakref_slot=True)
class StopFlag:
    """Set by any thread, or a signal handler, once and for all; the loop looks at it.

    `poll_by_s` is when the loop has to stop handing over and poll: in here, so that the one look
    at the clock after each message sees a stop too. `on_force_stop` is called, in whatever thread,
    where a stop is asked for once more. `interrupted`: an interrupt waits for the end of a turn.
    `forked`: this is the child of a fork, and only its parent may go on.
    """

    asked: bool = False
    poll_by_s: float = -math.inf
    on_force_stop: Callable[[], object] | None = None
    interrupted: bool = False
    forked: bool = False

    def interrupt(self) -> None:
        """For a signal handler."""
        self.interrupted = True

    def ask(self) -> None:
        """For any thread."""
        again, self.asked = self.asked, True
        self.poll_by_s = -math.inf
        if again and self.on_force_stop is not None:
            self.on_force_stop()

    def allow_until(self, poll_by_s: float) -> None:
        """For the loop. A stop that is asked for meanwhile is not overwritten."""
        self.poll_by_s = poll_by_s
        if self.asked or self.forked:
            self.poll_by_s = -math.inf

    def watch_forks(self) -> None:
        """Once: from now on the child of a fork ends its batch after the message in hand.

        In here as a stop is: asking for the process's number costs 120 ns for each message.
        """
        watch = getattr(os, "register_at_fork", None)  # there are no forks on Windows
        if watch is not None:
            # What is registered stays for ever, so it must hold nothing.
            watch(after_in_child=_noting_fork(weakref.ref(self)))

    def check_process(self) -> None:
        """Raises `UsageError` in the child of a fork."""
        if self.forked:
            raise forked_error()

    def _note_fork(self) -> None:
        self.forked, self.poll_by_s = True, -math.inf


def forked_error() -> UsageError:
    """What is raised in a child."""
    return UsageError(
        "this LinearConsumer was made before a fork: librdkafka's threads are not in the child; "
        "make it in the process that runs it, and end a child that is forked in a handler with "
        "os._exit"
    )


def _noting_fork(found: weakref.ref[StopFlag]) -> Callable[[], None]:
    def note() -> None:
        stop = found()
        if stop is not None:
            stop._note_fork()

    return note
