"""Recorded outages, as bounds of their durations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from linear_retry.errors import UsageError
from linear_retry.tuning.solver import MAX_DURATION_MS

__all__ = ["Outages"]

Numbers = npt.NDArray[np.float64]


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
