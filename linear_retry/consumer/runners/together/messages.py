"""What the process of the retry line tells the one that started it."""

import itertools
import os
import pickle
import threading
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue

from linear_retry.errors import RetryLineError
from linear_retry.records.text import guarded

STOP = b"stop"
"""Sent to it, once for each time that the live line was asked to stop."""
_MOST_WAITING, _TOLD_EVERY = 10_000, 1_000
LOOK_EVERY_S = 1.0


def is_child_of(parent: int) -> bool:
    """Whether this process still is a child of that one, which else has died."""
    return os.name == "nt" or os.getppid() == parent  # Windows keeps the number


@dataclass(frozen=True, slots=True)
class Begun:
    """The program was imported, and the line runs from here on."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The line has ended, for a stop or with an error."""

    error: BaseException | None = None
    cause: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Dropped:
    """So many log records were not sent, since too many were waiting."""

    count: int


class Outgoing:
    """Sends messages through a pipe from a thread of its own: a slow reader stops nobody else.

    For any thread, and also while that thread sends one: sending allocates, and a collection may
    run a `__del__` that logs. A lock would be waited for by its own holder.
    """

    def __init__(self, connection: Connection, parent: int) -> None:
        """`parent` is the process that reads the other end of `connection`."""
        self._connection = connection
        self._is_broken = False
        self._begin(parent)
        if hasattr(os, "register_at_fork"):  # Windows has no fork
            os.register_at_fork(after_in_child=lambda: self._begin(os.getppid()))

    def send(self, message: object) -> None:
        """Sends it soon. Drops it, and counts that, if too many wait already."""
        if self._waiting.qsize() < _MOST_WAITING:
            self._waiting.put(pickle.dumps(message))
        else:
            self._dropped += 1

    def send_last(self, message: object) -> bool:
        """Sends it whatever waits, and then does as `flush`."""
        self._waiting.put(pickle.dumps(message))
        return self.flush()

    def flush(self) -> bool:
        """Returns once all before is sent; False: the reader is gone."""
        is_reached = threading.Event()
        self._waiting.put(is_reached)
        while not is_reached.wait(LOOK_EVERY_S):
            # The pipe may be full, and stay open although its reader has died: a fork holds it.
            if not is_child_of(self._parent):
                return False
        return not self._is_broken

    def _begin(self, parent: int) -> None:
        """Begins to send; also in the child of a fork, which has no thread of its parent's."""
        self._parent = parent
        self._dropped = 0
        self._waiting: SimpleQueue[bytes | threading.Event] = SimpleQueue()
        threading.Thread(target=self._run, name="linear_retry relay", daemon=True).start()

    def _run(self) -> None:
        told = 0
        for number in itertools.count(1):
            message = self._waiting.get()
            if isinstance(message, bytes):
                self._write(message)
            # Now and then also where the queue is never empty: it may be full for hours.
            is_time = number % _TOLD_EVERY == 0 or self._waiting.empty()
            if self._dropped > told and is_time:
                dropped, told = Dropped(self._dropped - told), self._dropped
                self._write(pickle.dumps(dropped))
            if isinstance(message, threading.Event):
                message.set()

    def _write(self, pickled: bytes) -> None:
        try:
            self._connection.send_bytes(pickled)
        except OSError:
            self._is_broken = True


def ended_with(error: BaseException) -> Ended:
    """An error with its traceback as a note, as pickle keeps neither that nor the cause."""
    trace = "".join(traceback.format_exception(error))
    cause = error.__cause__
    portable = _portable(error) or RetryLineError(f"the retry line ended with {_named(error)}")
    portable.add_note(f"In the process of the retry line:\n{trace}")
    return Ended(portable, None if cause is None else _portable(cause))


def _portable(error: BaseException) -> BaseException | None:
    """A copy as the other process will see it; None if pickle cannot make one."""
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001  (a user's exception may raise anything here)
        return None
    return copy if isinstance(copy, BaseException) else None


def _named(error: BaseException) -> str:
    name = type(error).__qualname__
    return f"{name}: {guarded(lambda: str(error), otherwise='its text cannot be read')}"
