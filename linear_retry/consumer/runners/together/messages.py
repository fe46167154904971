"""What the process of the retry line tells the one that started it."""

import pickle
import traceback
from dataclasses import dataclass

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
