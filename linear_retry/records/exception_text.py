"""Exceptions as text: bounded in size, and without ever raising another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from traceback import StackSummary, walk_tb

from linear_retry.records.header_text import first_bytes, guarded, one_line, valid_unicode

MESSAGE_LIMIT_BYTES = 1024
STACK_LIMIT_BYTES = 8 * 1024

_FRAMES_LIMIT = 20
_FRAME_LIMIT_BYTES = 512
_LEAVES_LIMIT = 3
_ERRORS_LIMIT = 8


@dataclass(frozen=True, slots=True)
class ErrorText:
    """An exception as text. `message` or `stack` is None where it was left out."""

    type: str
    message: str | None
    stack: str | None


def describe(error: BaseException) -> ErrorText:
    """`error` as text: type and message of at most 1 KiB each, stack of at most 8 KiB.

    The stack reads as Python prints one, the causes first and `error` last. Where it is too long,
    what is furthest from the raise goes: of each traceback the frames nearest to the raise stay (at
    most 20), and of the chain the exceptions nearest to `error` (at most 8, among them 3 of a
    group's). The work is bounded likewise, however long, deep or cyclic the chain is.
    """
    return ErrorText(_type_name(error), _message(error), _stack(error))


def brief(error: BaseException) -> str:
    """`error` in one line of at most 1 KiB: what events and logs say of it."""
    unspoken = f"<{_type_name(error)}, whose __repr__ raised an exception>"
    text = first_bytes(guarded(lambda: repr(error), otherwise=unspoken), MESSAGE_LIMIT_BYTES)
    return first_bytes(one_line(text), MESSAGE_LIMIT_BYTES)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors in a group, each once, however deep and often it is nested; `error` if it is none.

    Not by recursion: a retry that wraps what it caught once more each time is thousands deep.
    """
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, BaseExceptionGroup):
            waiting.extend(reversed(one.exceptions))
        else:
            yield one


def _type_name(error: BaseException) -> str:
    kind = type(error)
    name = guarded(lambda: f"{kind.__module__}.{kind.__qualname__}", otherwise=kind.__qualname__)
    return first_bytes(name, MESSAGE_LIMIT_BYTES)


def _message(error: BaseException) -> str:
    text = guarded(lambda: str(error), otherwise="<the exception's __str__ raised an exception>")
    return first_bytes(text, MESSAGE_LIMIT_BYTES)


def _stack(error: BaseException) -> str:
    left_bytes = STACK_LIMIT_BYTES
    blocks: list[str] = []
    for link, one in islice(_chain(error), _ERRORS_LIMIT):
        block = _block(one) + link
        left_bytes -= len(block.encode())
        if left_bytes < 0:
            break
        blocks.append(block)
    return "".join(reversed(blocks))


def _block(error: BaseException) -> str:
    """One exception without its causes: at most some 2.5 KiB, so the first always fits."""
    lines = guarded(lambda: _frames(error), otherwise="  <the traceback cannot be formatted>\n")
    last_line = f"{_type_name(error)}: {_message(error)}\n"
    return "Traceback (most recent call last):\n" + lines + last_line


def _frames(error: BaseException) -> str:
    # A negative limit keeps the last frames, those nearest to the raise: the frame that says why.
    summary = StackSummary.extract(walk_tb(error.__traceback__), limit=-_FRAMES_LIMIT)
    frames = [first_bytes(frame, _FRAME_LIMIT_BYTES) for frame in summary.format()]
    kept: list[str] = []
    left_bytes = STACK_LIMIT_BYTES // 2
    for frame in reversed(frames):
        left_bytes -= len(frame.encode())
        if left_bytes < 0:
            break
        kept.append(frame if frame.endswith("\n") else frame + "\n")
    return valid_unicode("".join(reversed(kept)))


def _chain(error: BaseException) -> Iterator[tuple[str, BaseException]]:
    """`error`, the first of its group, its causes: with the line that follows each in print."""
    seen = {id(error)}
    yield "", error
    if isinstance(error, BaseExceptionGroup):
        for leaf in islice(leaves(error), _LEAVES_LIMIT):
            yield "\nThe above exception is one of those in the following group:\n\n", leaf
    link, cause = _cause(error)
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield link, cause
        link, cause = _cause(cause)


def _cause(error: BaseException) -> tuple[str, BaseException | None]:
    if error.__cause__ is not None:
        because = "\nThe above exception was the direct cause of the following exception:\n\n"
        return because, error.__cause__
    meanwhile = "\nDuring handling of the above exception, another exception occurred:\n\n"
    return meanwhile, None if error.__suppress_context__ else error.__context__
