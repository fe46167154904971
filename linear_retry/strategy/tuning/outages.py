"""Recorded outages, as bounds of their durations, and members whose clocks disagree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from linear_retry.errors import UsageError
from linear_retry.records.durations import DAY_MS
from linear_retry.strategy.tuning.solver import MAX_DURATION_MS

__all__ = ["Outages"]

Numbers = npt.NDArray[np.float64]

_SKEW_MS = 2_000.0
"""Openings that are no further apart are of one outage: members notice it by their next message."""
_APART_MS = 60_000.0
"""Openings of one member that are closer are of one outage."""
_FEWEST = 5
_MOST = 300


@dataclass(frozen=True, slots=True)
class Outages:
    """Each row lasted longer than `lower_ms`, its last failed probe, and no longer than `upper_ms`.

    `upper_ms` is its first successful probe, or infinity if its end is unknown: it is still open,
    its end was not recorded, or it was given up. Both are milliseconds since its first failure. An
    end after more than 7 days counts as unknown, too: no delay may be that long.

    What several members saw of one outage is one row, as `linear_retry.spark.group_outages` makes
    it: twelve members that saw eight outages saw eight, not 96.
    """

    lower_ms: Numbers
    upper_ms: Numbers

    @classmethod
    def of(cls, lower_ms: npt.ArrayLike, upper_ms: npt.ArrayLike) -> Outages:
        """Checks the bounds; raises `UsageError` if they are missing, negative or crossed.

        A successful probe in the same millisecond as the last failed one counts as the next.
        """
        lower, upper = np.asarray(lower_ms, np.float64), np.asarray(upper_ms, np.float64)
        is_row = lower.shape == upper.shape and lower.ndim == 1
        if not (is_row and np.all((lower >= 0) & np.isfinite(lower) & (upper >= lower))):
            raise UsageError(
                "lower_ms, upper_ms: give two rows of the same length, of 0 or more, and no upper "
                "below its lower"
            )
        upper = np.maximum(upper, lower + 1)
        is_long = upper > MAX_DURATION_MS
        return cls(np.minimum(lower, MAX_DURATION_MS), np.where(is_long, np.inf, upper))

    def __len__(self) -> int:
        return len(self.lower_ms)

    @property
    def ended(self) -> int:
        """The number of outages with a known end."""
        return int(np.isfinite(self.upper_ms).sum())

    def chosen(self, which: npt.NDArray[np.bool_] | npt.NDArray[np.int_]) -> Outages:
        """The rows that a mask or indexes select."""
        return Outages(self.lower_ms[which], self.upper_ms[which])

    def split(self, count: int) -> tuple[Outages, Outages]:
        """The first `count` outages, and the others."""
        is_first = np.arange(len(self)) < count
        return self.chosen(is_first), self.chosen(~is_first)


@dataclass(frozen=True, slots=True)
class ClocksApart:
    """What `ahead` saw, `behind` saw `by_ms` earlier by its own clock, in `shared` outages."""

    ahead: str
    behind: str
    by_ms: int
    shared: int


def clocks_apart(opened_ms: Mapping[str, Numbers]) -> ClocksApart | None:
    """Returns the two members whose clocks differ most, from the times of each one's openings.

    Clocks that differ make several outages of one. They show by openings of two members that are
    the same time apart again and again, and hardly ever together: in five outages at least, and in
    half of those that the member with fewer has seen. Members that never saw the same outage say
    nothing about their clocks.
    """
    seen = {member: _outages(times) for member, times in sorted(opened_ms.items())}
    pairs = (_compared(one, seen[one], two, seen[two]) for one, two in combinations(seen, 2))
    return max(filter(None, pairs), key=lambda pair: pair.by_ms, default=None)


def _outages(times_ms: Numbers) -> Numbers:
    """Returns the beginnings of the latest outages: an outage may open many circuits."""
    ordered = np.sort(np.asarray(times_ms, np.float64))
    is_first = np.diff(ordered, prepend=-np.inf) > _APART_MS
    return ordered[is_first][-_MOST:]


def _compared(one: str, first_ms: Numbers, two: str, second_ms: Numbers) -> ClocksApart | None:
    differences = (first_ms[:, None] - second_ms).ravel()
    near = np.sort(differences[np.abs(differences) <= DAY_MS])
    counts = np.searchsorted(near, near + 2 * _SKEW_MS, side="right") - np.arange(len(near))
    most = int(counts.max(initial=0))
    if most < max(_FEWEST, min(len(first_ms), len(second_ms)) / 2):
        return None
    start = int(counts.argmax())
    shift_ms = float(np.median(near[start : start + most]))
    together = int((np.abs(near) <= _SKEW_MS).sum())
    if abs(shift_ms) <= _SKEW_MS or 2 * together > most:
        return None
    ahead, behind = (one, two) if shift_ms > 0 else (two, one)
    return ClocksApart(ahead, behind, round(abs(shift_ms)), most)
