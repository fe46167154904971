"""The strategies that come with the package, by name."""

from __future__ import annotations

from pathlib import Path

from linear_retry.errors import StrategyError
from linear_retry.strategy.delays import shown
from linear_retry.strategy.file import load
from linear_retry.strategy.strategy import Strategy

_PACKAGE = Path(__file__).parents[1]


def names() -> tuple[str, ...]:
    """The name of each, sorted."""
    return tuple(sorted(file.stem for file in _directory().glob("*.json")))


def named(name: str) -> Strategy:
    """The one of this name. Raises `StrategyError`."""
    if name not in names():
        known = ", ".join(names())
        raise StrategyError(
            [
                f"no strategy is named {shown(name)}; there are {known}, and Strategy.load reads "
                "a file of yours"
            ]
        )
    return load(_directory() / f"{name}.json")


def _directory() -> Path:
    """A wheel has them in the package; a checkout, or an editable install of one, beside it."""
    inside = _PACKAGE / "strategies"
    return inside if inside.is_dir() else _PACKAGE.parent / "strategies"
