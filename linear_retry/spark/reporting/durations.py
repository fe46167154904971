"""Estimates the distribution of the durations of each group's outages."""

from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # it has no types
from pyspark.sql import DataFrame

from linear_retry.spark.history.tuning import by_group, in_groups
from linear_retry.tuning.bands import bands
from linear_retry.tuning.outages import Numbers, Outages

SHARES = (0.5, 0.95, 0.99)
_POINTS = 80
_SHORTEST_MS = (10.0, 1000.0)
"""The limits of the first time: where outages take less than a second, it must be earlier."""
_CURVE = ("group", "after_s", "lasting", "low", "high")
_CURVE_SCHEMA = "group string, after_s double, lasting double, low double, high double"
_QUANTILES = ("group", "outages", "known_end", "ended", "after_s", "low_s", "high_s")


def survival(outages: DataFrame, *, resamples: int = 100, seed: int = 1) -> DataFrame:
    """The share of each group's outages that last longer than a time, from their bounds.

    `outages`: rows of `group_outages`, or of `episodes`. A row for each of 80 times of a group:
    `group`, `after_s`, `lasting` (the share), and its bounds `low` and `high` with a confidence of
    95%, from so many `resamples`, drawn by `seed`. A group without known bounds has no rows.
    """

    def estimated(group: str, known: Outages) -> pd.DataFrame:
        at_ms, shares, _ = _estimated(known, resamples, seed)
        found = pd.DataFrame(np.column_stack([at_ms / 1000, shares]), columns=_CURVE[1:])
        found.insert(0, "group", group)
        return found

    return in_groups(outages, estimated, _CURVE_SCHEMA)


def durations(
    outages: DataFrame, *, resamples: int, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The share of outages that last longer than each time, and when each share has ended.

    For each group that has outages with known bounds, most outages first; a time is missing if that
    share never ends.
    """

    def estimated(group: str, known: Outages) -> tuple[Any, ...]:
        at_ms, shares, ended_ms = _estimated(known, resamples, seed)
        ends = np.where(np.isfinite(ended_ms), ended_ms / 1000, np.nan)
        curve = np.column_stack([at_ms / 1000, shares])
        return group, len(known), known.ended, curve.tolist(), ends.tolist()

    found = sorted(by_group(outages, estimated), key=lambda each: -each[1])
    curves = [(group, *row) for group, _, _, curve, _ in found for row in curve]
    quantiles = [
        (*each, share, *row)
        for *each, _, ends in found
        for share, row in zip(SHARES, ends, strict=True)
    ]
    return pd.DataFrame(curves, columns=_CURVE), pd.DataFrame(quantiles, columns=_QUANTILES)


def _estimated(known: Outages, resamples: int, seed: int) -> tuple[Numbers, Numbers, Numbers]:
    at_ms, rng = _times_ms(known), np.random.default_rng(seed)
    return at_ms, *bands(known, at_ms, SHARES, rng=rng, resamples=resamples)


def _times_ms(known: Outages) -> Numbers:
    """Returns times on a logarithmic scale, from before most ends up to the last known bound."""
    ends_ms = known.upper_ms[np.isfinite(known.upper_ms)]
    last_ms = max(known.lower_ms.max(), ends_ms.max(initial=0))
    early_ms = np.quantile(ends_ms, 0.05) / 2 if len(ends_ms) else last_ms
    first_ms = np.clip(early_ms, *_SHORTEST_MS)
    return np.geomspace(first_ms, max(last_ms, 2 * first_ms), _POINTS)
