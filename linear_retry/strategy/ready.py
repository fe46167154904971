"""The strategies that come with the package, by name."""

from pathlib import Path

from linear_retry.errors import StrategyError
from linear_retry.strategy.delays import shown

_PACKAGE = Path(__file__).parents[1]


def names() -> tuple[str, ...]:
    """The name of each, sorted."""
    return tuple(sorted(file.stem for file in _directory().glob("*.json")))


def path(name: str) -> Path:
    """The file of the one with this name. Raises `StrategyError`."""
    if name not in (known := names()):
        raise StrategyError(
            [
                f"no strategy is named {shown(name)}; there are {', '.join(known)}, and "
                "Strategy.load reads a file of yours"
            ]
        )
    return _directory() / f"{name}.json"


def _directory() -> Path:
    """A wheel has them in the package; a checkout, or an editable install of one, beside it."""
    inside = _PACKAGE / "strategies"
    return inside if inside.is_dir() else _PACKAGE.parent / "strategies"
