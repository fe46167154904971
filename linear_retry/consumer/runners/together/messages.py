"""What the process of the retry line tells the one that started it."""

import pickle
import threading
import traceback
from collections import deque
from dataclasses import dataclass
from multiprocessing.connection import Connection

from linear_retry.errors import RetryLineError
from linear_retry.records.text import guarded

STOP = b"stop"
"""Sent to it, once for each time that the live line was asked to stop."""


@dataclass(frozen=True, slots=True)
class Begun:
    """The program was imported, and the line runs from here on."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The line has ended, for a stop or with an error."""

    error: BaseException | None = None
    cause: BaseException | None = None


class Outgoing:
    """Sends messages through a pipe, from any thread, and also while that thread sends one.

    Sending allocates, and a collection may run a `__del__` that logs. A message that finds the pipe
    in use is left to the thread that uses it: waiting for that would be waiting for oneself.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._waiting: deque[bytes] = deque()
        self._in_use = threading.Lock()

    def send(self, message: object) -> None:
        """Sends it, or leaves it to the thread that sends just now. Raises `OSError`."""
        self._waiting.append(pickle.dumps(message))
        # Asked again after the release: what came just before it would wait for the next message.
        while self._waiting and self._in_use.acquire(blocking=False):
            try:
                self._send_waiting()
            finally:
                self._in_use.release()

    def send_last(self, message: object) -> None:
        """Sends it, and returns once it and all before it are sent."""
        self.send(message)
        with self._in_use:
            self._send_waiting()

    def _send_waiting(self) -> None:
        while self._waiting:
            self._connection.send_bytes(self._waiting.popleft())


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
