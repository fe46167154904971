"""Finds where the running strategy makes no attempt, so that nothing is known of the outages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from linear_retry.tuning.durations import Estimate
from linear_retry.tuning.outages import Outages

_NARROW = 1.25
_FEW = 0.2


@dataclass(frozen=True, slots=True)
class Gap:
    """`share` of the outages ended between `from_ms` and `until_ms`, where no attempt was made."""

    from_ms: int
    until_ms: int
    share: float

    @property
    def jitter_helps(self) -> bool:
        """Whether jitter would narrow it.

        Jitter delays an attempt by a part of the time before it, and so brings attempts into a gap
        that is short in relation to that time. A longer gap needs an attempt within it.
        """
        return self.until_ms <= 2 * self.from_ms


def widest_gap(outages: Outages, known: Estimate, *, shortest_ms: int) -> Gap | None:
    """Returns the gap in which most outages ended, if it is wide, and a fifth of them did.

    Wide: more than a quarter of the time before it, and room for two delays of `shortest_ms`.
    """
    finite_ms = outages.upper_ms[np.isfinite(outages.upper_ms)]
    bounds_ms = np.unique(np.concatenate([[0.0], outages.lower_ms, finite_ms]))
    shares = np.diff(known.within(bounds_ms))
    is_wide = np.diff(bounds_ms) >= np.maximum(2 * shortest_ms, (_NARROW - 1) * bounds_ms[:-1])
    shares = shares * is_wide
    if shares.max(initial=0) < _FEW:
        return None
    most = int(shares.argmax())
    return Gap(int(bounds_ms[most]), int(bounds_ms[most + 1]), float(shares[most]))
