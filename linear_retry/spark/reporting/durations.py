"""Estimates the distribution of the durations of each group's outages."""

from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # it has no types
from pyspark.sql import DataFrame

from linear_retry.spark.tuning import Which, by_group
from linear_retry.tuning.bands import bands
from linear_retry.tuning.outages import Numbers, Outages

SHARES = (0.5, 0.9, 0.99)
_POINTS = 80
_SHORTEST_MS = 1000
_CURVE = ("group", "after_s", "lasting", "low", "high")
_QUANTILES = ("group", "outages", "known_end", "ended", "after_s", "low_s", "high_s")


def durations(
    outages: DataFrame, *, resamples: int, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The share of outages that last longer than each time, and when each share has ended.

    For each group that has outages with known bounds, most outages first; a time is missing if that
    share never ends.
    """

    def estimated(group: str, known: Outages, which: Which) -> tuple[Any, ...]:
        at_ms = _times_ms(known)
        rng = np.random.default_rng(seed)
        shares, ended_ms = bands(known, which, at_ms, SHARES, rng=rng, resamples=resamples)
        ends = np.where(np.isfinite(ended_ms), ended_ms / 1000, np.nan)
        curve = np.column_stack([at_ms / 1000, shares])
        return group, len(known), known.ended, curve.tolist(), ends.tolist()

    found = sorted(by_group(outages, "began_ms", estimated), key=lambda each: -each[1])
    curves = [(group, *row) for group, _, _, curve, _ in found for row in curve]
    quantiles = [
        (*each, share, *row)
        for *each, _, ends in found
        for share, row in zip(SHARES, ends, strict=True)
    ]
    return pd.DataFrame(curves, columns=_CURVE), pd.DataFrame(quantiles, columns=_QUANTILES)


def _times_ms(known: Outages) -> Numbers:
    """Returns times on a logarithmic scale, up to the last known bound."""
    is_finite = np.isfinite(known.upper_ms)
    last_ms = max(known.lower_ms.max(), known.upper_ms[is_finite].max(initial=0))
    return np.geomspace(_SHORTEST_MS, max(last_ms, 2 * _SHORTEST_MS), _POINTS)
