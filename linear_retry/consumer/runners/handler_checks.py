"""Checks, before the first message, that a handler can be called and does its work when called."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from linear_retry.errors import UsageError

_TAKES = "one message"


def check_handler(handler: object, takes: str = _TAKES) -> None:
    """Raises `UsageError` if each call would fail, or would count as done without running.

    `takes` names its arguments, joined by "and".
    """
    for call in _calls(handler, takes):
        if inspect.iscoroutinefunction(call):
            raise UsageError(
                f"handler={handler!r}: a coroutine function would never be awaited; use run_async, "
                "or run_together_async"
            )


def check_async_handler(handler: object) -> None:
    """Raises `UsageError` if each call would fail, or return nothing to await."""
    _calls(handler, _TAKES)


def _calls(handler: object, takes: str) -> tuple[Any, Any]:
    """Returns what a call of `handler` runs. Raises `UsageError` if that would do nothing."""
    if not callable(handler):
        raise UsageError(f"handler={handler!r}: must be a callable of {takes}")
    called = _unwrapped(handler)
    calls = called, _unwrapped(type(called).__call__)
    if any(map(inspect.isgeneratorfunction, calls)) or any(map(inspect.isasyncgenfunction, calls)):
        raise UsageError(
            f"handler={handler!r}: a generator function would never run; give a plain function"
        )
    _check_arguments(handler, takes)
    return calls


def _check_arguments(handler: Any, takes: str) -> None:
    """Checks the signature: a TypeError per message would dead-letter the whole topic."""
    refusal = why_not(handler, takes.count(" and ") + 1)
    if refusal is not None:
        raise UsageError(
            f"handler={handler!r}: it cannot be called with {takes}, by position ({refusal}); wrap "
            "it in a lambda or functools.partial"
        )


def why_not(call: Callable[..., object], arguments: int) -> str | None:
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


def _unwrapped(call: Any) -> Any:
    while isinstance(call, functools.partial):
        call = call.func
    return inspect.unwrap(call)
