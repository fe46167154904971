"""Reads the values of a user's settings."""

from linear_retry.errors import ConfigurationError
from linear_retry.strategy.delays import read_delay_s
from linear_retry.strategy.strategy import Strategy


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
