"""Looks at the functions that a user gives us, and at what they return: work that is not run.

A coroutine, a future or a generator would count as done, though nothing of it has happened.
"""

import functools
import inspect
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from concurrent.futures import Future
from types import CoroutineType
from typing import Any

_REMEDIES: dict[type | tuple[type, ...], str] = {
    Future: "call its result() in the function",
    (Generator, map, filter, itertools.starmap): "iterate over it in the function",
    (Awaitable, AsyncGenerator): "only an async def handler, which is for run_async, may await it",
}
_UNDONE = (Future, Generator, map, filter, itertools.starmap, Awaitable, AsyncGenerator)


class UndoneError(BaseException):
    """A function of a user's returned work that would not run.

    Not an `Exception`: the function has not failed, and nothing is decided about its message.
    """


def check_result(result: object) -> None:
    """Raises `UndoneError` for work not run. Checks only the type: a mock has every attribute."""
    kind = type(result)
    if issubclass(kind, _UNDONE):
        if isinstance(result, CoroutineType):
            result.close()  # or Python warns, at an unrelated line, that it was never awaited
        remedy = next(text for kinds, text in _REMEDIES.items() if issubclass(kind, kinds))
        raise UndoneError(
            f"an object of type {kind.__name__}: its work would not run, or not be waited for, and "
            f"it would count as done; {remedy}"
        )


def is_coroutine_function(call: object) -> bool:
    """Whether a call returns a coroutine, which somebody has to await."""
    return any(map(inspect.iscoroutinefunction, _run_by(call)))


def is_generator_function(call: object) -> bool:
    """Whether a call returns a generator, which somebody has to iterate over."""
    is_generator = inspect.isgeneratorfunction, inspect.isasyncgenfunction
    return any(is_it(one) for one in _run_by(call) for is_it in is_generator)


def why_not(call: object, arguments: int) -> str | None:
    """Returns why a call with so many positional arguments would do nothing; None if it works."""
    if not callable(call):
        return "it cannot be called"
    if is_coroutine_function(call):
        return "a coroutine function would never be awaited"
    if is_generator_function(call):
        return "a generator function would never run"
    return why_not_with(call, arguments)


def why_not_with(call: Callable[..., object], arguments: int) -> str | None:
    """Returns why `call` cannot take this many positional arguments; None if it can."""
    try:
        # Not the wrapped function's signature: a decorator may add arguments.
        signature = inspect.signature(call, follow_wrapped=False)
    except (ValueError, TypeError):  # some builtins have no signature
        return None
    try:
        signature.bind(*range(arguments))
    except TypeError as error:
        return str(error)
    return None


def _run_by(call: Any) -> tuple[Any, Any]:
    """What a call of `call` runs, as a function or as an object that can be called.

    Not what `__wrapped__` names: the wrapper of an `async def` may run it to its end, and what
    others return is checked at each call.
    """
    while isinstance(call, functools.partial):
        call = call.func
    return call, type(call).__call__
