"""What remains of a failed attempt: texts, and neither its exception nor what that keeps alive."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from opcode import opmap
from types import FrameType, TracebackType

from linear_retry.records.text import ErrorText, brief, describe
from linear_retry.retry.decision import Failure

_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_YIELD = opmap["YIELD_VALUE"]


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """The outcome of a failed attempt: `text` is the error in one line, `error` all of it.

    `exception` only where it must outlive the attempt, for `"stop"` and `Recovery`: without the
    locals of its frames.
    """

    failure: Failure
    error: ErrorText
    text: str
    exception: Exception | None = None

    @property
    def origin(self) -> tuple[str, ...]:
        """The error's type and the lines of code that it has passed; () for one never raised.

        Equal for equal bugs, whatever the message that they were met at.
        """
        lines = (line.lstrip(" |+-") for line in (self.error.stack or "").splitlines())
        passed = tuple(line for line in lines if line.startswith('File "'))
        return (self.error.type, *passed) if passed else ()


def describe_failure(error: Exception, failure: Failure, *, keep: bool) -> FailedAttempt:
    """Describes `error`, and lets go of everything that it keeps alive; it is itself only kept
    if `keep`.

    A handler's connections and open transactions are locals of its frames: kept for the whole wait,
    they would hold locks that the next attempt meets.
    """
    text, line = describe(error), brief(error)
    release(error)
    if keep:
        for one in _behind(error):
            one.__context__ = None
    return FailedAttempt(failure, text, line, error if keep else None)


def release(error: BaseException) -> None:
    """Clears the locals of the frames that `error`, and those behind it, have passed.

    Not of those that are running, or that wait to go on: the program's own, such as a task that
    hands its exception to whom it works for.
    """
    for one in _behind(error):
        for frame in _frames(one.__traceback__):
            if not _is_suspended(frame):
                with suppress(RuntimeError):  # it is running
                    frame.clear()


def _behind(error: BaseException) -> list[BaseException]:
    """The error, its causes and contexts, and those of a group: each once, however deep."""
    found: dict[int, BaseException] = {}
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in found:
            continue
        found[id(one)] = one
        waiting += (one.__cause__, one.__context__)
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions
    return [*found.values()]


def _frames(trace: TracebackType | None) -> Iterator[FrameType]:
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def _is_suspended(frame: FrameType) -> bool:
    """Whether it may belong to a generator or coroutine that waits at a `yield` or an `await`.

    Before Python 3.13, which refuses it, `clear` would end that for good.
    """
    code = frame.f_code
    return bool(code.co_flags & _GENERATORS) and code.co_code[frame.f_lasti] == _YIELD


class BatchError(Exception):
    """Raised by a handler of `run_batches`: it is done with all messages before `index`.

    The message at `index`, 0-based in the list that the handler was given, has failed with `cause`,
    whose type decides whether it is attempted again. The next batch begins with it.

    The constructor never raises: in a handler that would look like the handler's own failure. If
    `index` is no position in the list, or `cause` no `Exception`, `run_batches` raises
    `UsageError`, and nothing of the batch is done.
    """

    __module__ = "linear_retry"  # its public name, for logs and dead letters

    index: int = -1  # for a subclass that does not call this __init__
    cause: Exception | None = None

    def __init__(self, index: int, cause: Exception) -> None:
        super().__init__(index, cause)
        self.index = index
        self.cause = cause

    def __str__(self) -> str:
        return f"message {self.index} of the batch: {self.cause!r}"
