"""Checks, before the first message, that a handler can be called and does its work when called."""

from linear_retry.errors import UsageError
from linear_retry.retry.callables import is_coroutine_function, is_generator_function, why_not_with

_TAKES = "one message"


def check_handler(handler: object, takes: str = _TAKES) -> None:
    """Raises `UsageError` if each call would fail, or would count as done without running.

    `takes` names its arguments, joined by "and".
    """
    _check(handler, takes)
    if is_coroutine_function(handler):
        raise UsageError(
            f"handler={handler!r}: a coroutine function would never be awaited; use run_async, or "
            "run_together_async"
        )


def check_async_handler(handler: object) -> None:
    """Raises `UsageError` if each call would fail, or return nothing to await."""
    _check(handler, _TAKES)


def _check(handler: object, takes: str) -> None:
    if not callable(handler):
        raise UsageError(f"handler={handler!r}: must be a callable of {takes}")
    if is_generator_function(handler):
        raise UsageError(
            f"handler={handler!r}: a generator function would never run; give a plain function"
        )
    # A TypeError per message would dead-letter the whole topic.
    refusal = why_not_with(handler, takes.count(" and ") + 1)
    if refusal is not None:
        raise UsageError(
            f"handler={handler!r}: it cannot be called with {takes}, by position ({refusal}); wrap "
            "it in a lambda or functools.partial"
        )
