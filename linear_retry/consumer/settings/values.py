"""Reads the values of a user's settings."""

import warnings
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, cast

from linear_retry.errors import ConfigurationError
from linear_retry.retry.callables import check_result, why_not
from linear_retry.strategy.delays import read_delay_s
from linear_retry.strategy.strategy import Strategy

Errors: TypeAlias = (
    type[BaseException] | Iterable[type[BaseException]] | Callable[[Exception], object]
)


def as_strategy(strategy: object) -> Strategy:
    """A list is `Strategy(list)`. Raises `ConfigurationError` for anything else."""
    if isinstance(strategy, list | tuple):
        return Strategy(strategy)
    if not isinstance(strategy, Strategy):
        raise ConfigurationError(
            f"strategy={strategy!r}: must be a Strategy; write Strategy([1, 5, 30]) or "
            "Strategy.load(path)"
        )
    return strategy


def check_limit(limit: object) -> None:
    """Raises `ConfigurationError` for what is no limit of messages in a row."""
    if limit is not None and (type(limit) is not int or limit < 1):
        raise ConfigurationError(
            f"limit={limit!r}: must be a whole number from 1, or None for no limit"
        )


def read_hold_s(hold: float | str | None) -> float | None:
    """`hold` in seconds. Raises `ConfigurationError`."""
    problems: list[str] = []
    hold_s = None if hold is None else read_delay_s(hold, "hold", problems)
    if hold is not None and not hold_s:
        why = problems or [f"hold={hold!r}: above 0, or it would be attempted all the time"]
        raise ConfigurationError(why[0])
    return hold_s


def predicate_of(name: str, errors: Errors, depth: int) -> Callable[[BaseException], bool]:
    """Returns exception types, or a predicate on the exception, as a predicate.

    `name` is the setting's, `depth` how many calls away the user's own is, for a warning. Raises
    `ConfigurationError`.
    """
    given: object = (errors,) if isinstance(errors, type) else errors
    if isinstance(given, Iterable) and not isinstance(given, str):
        types = tuple(given)
        _check_types(name, types, depth + 1)
        return lambda error: isinstance(error, types)
    if not callable(given):
        raise ConfigurationError(
            f"{name}={given!r}: must be exception types, or a predicate on the exception"
        )
    # A handler's failure is always an Exception, and so is each error in its groups.
    predicate = cast(Callable[[BaseException], object], given)
    _check_predicate(name, predicate)

    def decided(error: BaseException) -> bool:
        answer = predicate(error)
        check_result(answer)
        return bool(answer)

    return decided


def _check_predicate(name: str, predicate: Callable[..., object]) -> None:
    """Checks the signature now: the first call would come in an outage, which is too late."""
    refusal = why_not(predicate, 1)
    if refusal is not None:
        raise ConfigurationError(
            f"{name}={predicate!r}: not a predicate on an exception ({refusal}); give a plain "
            "function of one argument"
        )


def _check_types(name: str, types: tuple[Any, ...], depth: int) -> None:
    if not types:
        raise ConfigurationError(
            f"{name}=(): no error would ever be retried; name the errors of the dependency, "
            "or write transient=lambda error: False if that is intended"
        )
    wrong = [item for item in types if not (isinstance(item, type) and issubclass(item, Exception))]
    if wrong:
        raise ConfigurationError(
            f"{name}: {wrong!r}: not subclasses of Exception, and only those are retried; name "
            "the errors of the dependency, or give one predicate"
        )
    if Exception in types:
        warnings.warn(
            f"{name}=Exception: every bug of the handler will be retried like an outage; name "
            "the errors of the dependency instead",
            stacklevel=depth,
        )
