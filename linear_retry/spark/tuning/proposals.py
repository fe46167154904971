"""Proposes delays for each group in the table `outages`, and says what delays would have cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd  # type: ignore[import-untyped]  # it has no types
from pyspark.sql import DataFrame

from linear_retry.tuning.held_out import compare
from linear_retry.tuning.outages import Outages, concurrent
from linear_retry.tuning.proposal import TooFew, propose
from linear_retry.tuning.solver import Conditions, Solution, Unreachable

CurrentDelays: TypeAlias = Sequence[int] | Mapping[str, Sequence[int]]
"""The delays in ms that are used now: the same for all groups, or by group."""

_SEEN = 2 / 3
_MEAN = "struct<mean: double, low: double, high: double>"
_COSTS = f"struct<idle_ms: {_MEAN}, probes: {_MEAN}, covered: {_MEAN}, total_ms: {_MEAN}>"
_COUNTS = {"group": "string", "outages": "bigint", "ended": "bigint"}
_DURATIONS = "struct<edges_ms: array<double>, shares: array<double>>"
_COMPARED = {"current": _COSTS, "proposed": _COSTS, "saved": _MEAN, "durations": _DURATIONS}
_PROPOSED = {
    **_COUNTS,
    "seen": "bigint",
    "seen_ended": "bigint",
    "verdict": "string",
    "needed": "bigint",
    "cover": "double",
    "delays_ms": "array<bigint>",
    **_COMPARED,
}
_GroupFunction: TypeAlias = Callable[[pd.DataFrame], pd.DataFrame]


def proposals(
    outages: DataFrame,
    current_ms: CurrentDelays,
    probe_cost_ms: float,
    conditions: Conditions,
    *,
    seed: int = 1,
) -> DataFrame:
    """One row for each group that has outages with known bounds.

    The proposal comes from the first two thirds of them, in the order of time; its costs, beside
    those of `current_ms`, in milliseconds and with intervals, from the others. `verdict`:

    - `proposed`: `delays_ms`, and all that follows; no costs if no outage was left for them.
    - `too few`: only `seen_ended` of those seen have a known end, `needed` would have to, and
      `cover` is the share that they are enough for.
    - `unreachable`: no more than `cover` of the outages are known to end at all.

    Outages that members of a group had at the same time are one: they are seen, or drawn, together.
    The same outages and `seed` give the same rows, in whatever order and partitions they come.
    """

    def propose_for_group(rows: pd.DataFrame) -> pd.DataFrame:
        group, known, which = outages_of(rows, "opened_at_ms")
        is_seen = which <= which[int((len(known) - 1) * _SEEN)]
        seen, others = known.chosen(is_seen), known.chosen(~is_seen)
        values: dict[str, Any] = {"seen": len(seen), "seen_ended": seen.ended}
        match propose(seen, probe_cost_ms, conditions):
            case TooFew(_, needed, cover):
                values |= {"verdict": "too few", "needed": needed, "cover": cover}
            case Unreachable(covered):
                values |= {"verdict": "unreachable", "cover": covered}
            case Solution(delays_ms):
                values |= {"verdict": "proposed", "delays_ms": list(delays_ms)}
                if len(others):  # else all of them overlap
                    comparison = compare(
                        *(delays_of(current_ms, group), delays_ms, others, probe_cost_ms),
                        rng=np.random.default_rng(seed),
                        concurrent=which[~is_seen],
                    )
                    values |= asdict(comparison)
        return _row(_PROPOSED, group, known, values)

    return _by_group(outages, propose_for_group, _PROPOSED)


def costs(
    outages: DataFrame,
    current_ms: CurrentDelays,
    delays_ms: Sequence[int],
    probe_cost_ms: float,
    *,
    seed: int = 1,
) -> DataFrame:
    """The costs of `delays_ms` in all outages of each group, beside the current delays.

    As in `proposals`, but nothing is held out: delays that were made from these outages look
    better here than they are.
    """

    def compare_in_group(rows: pd.DataFrame) -> pd.DataFrame:
        group, known, which = outages_of(rows, "opened_at_ms")
        rng = np.random.default_rng(seed)
        current = delays_of(current_ms, group)
        comparison = compare(current, delays_ms, known, probe_cost_ms, rng=rng, concurrent=which)
        return _row(_COUNTS | _COMPARED, group, known, asdict(comparison))

    return _by_group(outages, compare_in_group, _COUNTS | _COMPARED)


def _by_group(
    outages: DataFrame, function: _GroupFunction, columns: Mapping[str, str]
) -> DataFrame:
    known = outages.where("lower_ms IS NOT NULL").select(
        "group", "opened_at_ms", "last_at_ms", "lower_ms", "upper_ms"
    )
    schema = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
    return known.groupBy("group").applyInPandas(function, schema)


def outages_of(rows: pd.DataFrame, began: str) -> tuple[str, Outages, npt.NDArray[np.int_]]:
    """Group and outages of its rows, in the order of time, and which of them are concurrent.

    Sorted by every column: rows that differ would else be in the order of Spark's partitions.
    """
    rows = rows.sort_values([began, "last_at_ms", "lower_ms", "upper_ms"])
    known = Outages.of(rows["lower_ms"], rows["upper_ms"].astype(float).fillna(np.inf))
    return str(rows["group"].iloc[0]), known, concurrent(rows[began], rows["last_at_ms"])


def delays_of(current_ms: CurrentDelays, group: str) -> tuple[int, ...] | None:
    """The current delays of one group, if they are known."""
    found = current_ms.get(group) if isinstance(current_ms, Mapping) else current_ms
    return None if found is None else tuple(found)


def _row(
    columns: Mapping[str, str], group: str, known: Outages, values: Mapping[str, Any]
) -> pd.DataFrame:
    row = {"group": group, "outages": len(known), "ended": known.ended, **values}
    return pd.DataFrame({name: pd.Series([row.get(name)], dtype=object) for name in columns})
