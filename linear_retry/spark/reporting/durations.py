"""Estimates the distribution of the durations of each group's outages."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # it has no types
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.spark.tuning import outages_of
from linear_retry.tuning.bands import bands
from linear_retry.tuning.outages import Numbers, Outages

SHARES = (0.5, 0.9, 0.99)
_POINTS = 80
_SHORTEST_MS = 1000
_SCHEMA = (
    "group string, outages bigint, known_end bigint, "
    "curve array<struct<after_s: double, lasting: double, low: double, high: double>>, "
    "ends array<struct<ended: double, after_s: double, low_s: double, high_s: double>>"
)


def estimate(outages: DataFrame, *, resamples: int, seed: int) -> DataFrame:
    """One row for each group that has outages with known bounds."""
    known = outages.where("lower_ms IS NOT NULL").select(
        *("group", "began_ms", "last_at_ms", "lower_ms", "upper_ms")
    )
    return known.groupBy("group").applyInPandas(_estimating(resamples, seed), _SCHEMA)


def curves(found: DataFrame) -> DataFrame:
    """For each group, the share of outages that last longer than each time."""
    each = found.select("outages", "group", F.explode("curve").alias("at"))
    return each.orderBy(F.desc("outages"), "group", "at.after_s").select("group", "at.*")


def quantiles(found: DataFrame) -> DataFrame:
    """For each group, the time after which each share has ended; NULL if so many never do."""
    each = found.select("group", "outages", "known_end", F.explode("ends").alias("at"))
    ordered = each.orderBy(F.desc("outages"), "group", "at.ended")
    return ordered.select("group", "outages", "known_end", "at.*")


def _estimating(resamples: int, seed: int) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def estimate_group(rows: pd.DataFrame) -> pd.DataFrame:
        group, known, which = outages_of(rows, "began_ms")
        at_ms = _times_ms(known)
        rng = np.random.default_rng(seed)
        shares, ended_ms = bands(known, which, at_ms, SHARES, rng=rng, resamples=resamples)
        row = {
            "group": group,
            "outages": len(known),
            "known_end": known.ended,
            "curve": _structs(("after_s", "lasting", "low", "high"), at_ms / 1000, shares),
            "ends": _structs(("ended", "after_s", "low_s", "high_s"), SHARES, ended_ms / 1000),
        }
        return pd.DataFrame({name: [value] for name, value in row.items()})

    return estimate_group


def _times_ms(known: Outages) -> Numbers:
    """Times on a logarithmic scale, up to the last that anything is known of."""
    is_finite = np.isfinite(known.upper_ms)
    last_ms = max(known.lower_ms.max(), known.upper_ms[is_finite].max(initial=0))
    return np.geomspace(_SHORTEST_MS, max(last_ms, 2 * _SHORTEST_MS), _POINTS)


def _structs(names: tuple[str, ...], first: Any, rest: Numbers) -> list[dict[str, float | None]]:
    rows = np.column_stack([first, rest]).tolist()
    return [
        {n: each if np.isfinite(each) else None for n, each in zip(names, row, strict=True)}
        for row in rows
    ]
