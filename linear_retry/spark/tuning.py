"""Which delays does each group call for, by its rows of the table `outages`?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # it has no types
from pyspark.sql import DataFrame

from linear_retry.strategy_solver import Conditions, Solution, Unreachable
from linear_retry.tuning.held_out import compare
from linear_retry.tuning.outages import Outages, concurrent
from linear_retry.tuning.proposing import TooFew, propose

_SEEN = 2 / 3
_MEAN = "struct<mean: double, low: double, high: double>"
_COLUMNS = {
    "group": "string",
    "outages": "bigint",
    "seen": "bigint",
    "verdict": "string",
    "ended": "bigint",
    "needed": "bigint",
    "cover": "double",
    "delays_ms": "array<bigint>",
    **dict.fromkeys(("present", "proposed", "saved", "present_covered", "proposed_covered"), _MEAN),
}


def proposals(
    outages: DataFrame,
    present_ms: Sequence[int],
    probe_cost_ms: float,
    conditions: Conditions,
    *,
    seed: int = 1,
) -> DataFrame:
    """One row for each group of whose outages something is known.

    What is proposed comes from the first two thirds of them, in the order of time; what it costs,
    beside the delays `present_ms`, in milliseconds and with intervals, from the others. `verdict`:

    - `proposed`: `delays_ms`, and all that follows.
    - `too few`: only `ended` of those seen have a known end, `needed` would have to, and `cover` is
      what they are enough for.
    - `unreachable`: no more than `cover` of the outages are known to end at all.

    Outages that members of a group had at the same time are one: they are seen, or drawn, together.
    """
    known = outages.where("lower_ms IS NOT NULL").select(
        "group", "opened_at_ms", "last_at_ms", "lower_ms", "upper_ms"
    )
    judged = _judging(tuple(present_ms), probe_cost_ms, conditions, seed)
    schema = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
    return known.groupBy("group").applyInPandas(judged, schema)


def _judging(
    present_ms: tuple[int, ...], probe_cost_ms: float, conditions: Conditions, seed: int
) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def judged(rows: pd.DataFrame) -> pd.DataFrame:
        rows = rows.sort_values(["opened_at_ms", "last_at_ms", "lower_ms"], kind="stable")
        known = Outages.of(rows["lower_ms"], rows["upper_ms"].astype(float).fillna(np.inf))
        together = concurrent(rows["opened_at_ms"], rows["last_at_ms"])
        is_seen = together <= together[int((len(known) - 1) * _SEEN)]
        told = {"group": rows["group"].iloc[0], "outages": len(known), "seen": int(is_seen.sum())}
        found = propose(known.chosen(is_seen), probe_cost_ms, conditions)
        match found:
            case TooFew(ended, needed, cover):
                told |= {"verdict": "too few", "ended": ended, "needed": needed, "cover": cover}
            case Unreachable(covered):
                told |= {"verdict": "unreachable", "cover": covered}
            case Solution(delays_ms) if is_seen.all():
                # All of them overlap: nothing is left to compare on.
                told |= {"verdict": "proposed", "delays_ms": list(delays_ms)}
            case Solution(delays_ms):
                dice, others = np.random.default_rng(seed), known.chosen(~is_seen)
                said = compare(
                    *(present_ms, delays_ms, others, probe_cost_ms),
                    dice=dice,
                    concurrent=together[~is_seen],
                )
                told |= {"verdict": "proposed", "delays_ms": list(delays_ms), **asdict(said)}
        return _row(told)

    return judged


def _row(told: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series([told.get(name)], dtype=object) for name in _COLUMNS})
