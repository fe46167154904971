"""Rejects handler results that are work not run: a coroutine, a generator."""

import itertools
from collections.abc import AsyncGenerator, Awaitable, Generator
from concurrent.futures import Future
from types import CoroutineType

_KNOWN_TYPES = 64
_REMEDIES: dict[type | tuple[type, ...], str] = {
    Future: "call its result() in the handler",
    (Generator, map, filter, itertools.starmap): "iterate over it in the handler",
    (Awaitable, AsyncGenerator): "await it in an async def handler, which is for run_async",
}
_UNDONE = (Future, Generator, map, filter, itertools.starmap, Awaitable, AsyncGenerator)


class UndoneError(BaseException):
    """A handler returned work that would not run.

    Not an `Exception`: the handler has not failed, and nothing is decided about its message.
    """


class Results:
    """Checks what the handler of one `run` returns. `harmless` has the types already checked.

    Checking a type costs some 500 ns, so the caller looks into `harmless` first, and only the first
    result of each type is checked. It is bounded: each mock has its own type.
    """

    def __init__(self) -> None:
        self.harmless: set[type] = {type(None)}

    def check(self, result: object) -> None:
        """Raises `UndoneError`. Checks only the type, as a mock has every attribute."""
        kind = type(result)
        if issubclass(kind, _UNDONE):
            if isinstance(result, CoroutineType):
                result.close()  # or Python warns, at an unrelated line, that it was never awaited
            raise UndoneError(_undone(kind))
        if len(self.harmless) < _KNOWN_TYPES:
            self.harmless.add(kind)


def _undone(kind: type) -> str:
    remedy = next(text for kinds, text in _REMEDIES.items() if issubclass(kind, kinds))
    return (
        f"an object of type {kind.__name__}: its work would not run, or not be waited for, and the "
        f"message would count as done; {remedy}"
    )
