"""A figure: samples, their unit, and the target that it has to reach."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Target:
    """What the library promises of a figure."""

    kind: Literal["at most", "at least"]
    value: float

    def reached_by(self, value: float) -> bool:
        """Whether `value` keeps the promise."""
        return value <= self.value if self.kind == "at most" else value >= self.value

    def __str__(self) -> str:
        return f"{self.kind} {shown(self.value)}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One value for each round: the median is the figure, lowest and highest are its spread."""

    name: str
    unit: str
    rounds: tuple[float, ...]
    target: Target | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def verdict(self) -> str:
        """`reached` or `MISSED`, by the median; empty where nothing is promised."""
        if self.target is None:
            return ""
        return "reached" if self.target.reached_by(self.median) else "MISSED"

    def as_json(self) -> dict[str, Any]:
        """For machines: every round's value, and what is computed from them."""
        return {
            "name": self.name,
            "unit": self.unit,
            "median": self.median,
            "lowest": min(self.rounds),
            "highest": max(self.rounds),
            "rounds": list(self.rounds),
            "target": None if self.target is None else str(self.target),
            "verdict": self.verdict,
        }


@dataclass(frozen=True, slots=True)
class Result:
    """What one benchmark found. `notes` say what a reader of the figures must know."""

    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = ()


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` % of all do not exceed; of one value, itself."""
    ordered = sorted(values)
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(int(rank), 1) - 1]


def shown(value: float) -> str:
    """Three digits that count, or all digits before the point, in groups."""
    return f"{value:,.0f}" if abs(value) >= 10**_DIGITS else f"{value:.{_DIGITS}g}"
