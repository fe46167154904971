"""Which delays does each group call for, and what do delays cost it, by the table `outages`?"""

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
"""The delays in ms that are used now: of every group, or of each by its name, where known."""

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
_Judged: TypeAlias = Callable[[pd.DataFrame], pd.DataFrame]


def proposals(
    outages: DataFrame,
    current_ms: CurrentDelays,
    probe_cost_ms: float,
    conditions: Conditions,
    *,
    seed: int = 1,
) -> DataFrame:
    """One row for each group of whose outages something is known.

    What is proposed comes from the first two thirds of them, in the order of time; what it costs,
    beside the delays `current_ms`, in milliseconds and with intervals, from the others. `verdict`:

    - `proposed`: `delays_ms`, and all that follows; no costs where no outage was left for them.
    - `too few`: only `seen_ended` of those seen have a known end, `needed` would have to, and
      `cover` is what they are enough for.
    - `unreachable`: no more than `cover` of the outages are known to end at all.

    Outages that members of a group had at the same time are one: they are seen, or drawn, together.
    The same outages and `seed` give the same rows, in whatever order and partitions they come.
    """

    def judged(rows: pd.DataFrame) -> pd.DataFrame:
        group, known, together = _told(rows)
        is_seen = together <= together[int((len(known) - 1) * _SEEN)]
        seen, others = known.chosen(is_seen), known.chosen(~is_seen)
        told: dict[str, Any] = {"seen": len(seen), "seen_ended": seen.ended}
        match propose(seen, probe_cost_ms, conditions):
            case TooFew(_, needed, cover):
                told |= {"verdict": "too few", "needed": needed, "cover": cover}
            case Unreachable(covered):
                told |= {"verdict": "unreachable", "cover": covered}
            case Solution(delays_ms):
                told |= {"verdict": "proposed", "delays_ms": list(delays_ms)}
                if len(others):  # else all of them overlap
                    said = compare(
                        *(_of(current_ms, group), delays_ms, others, probe_cost_ms),
                        rng=np.random.default_rng(seed),
                        concurrent=together[~is_seen],
                    )
                    told |= asdict(said)
        return _row(_PROPOSED, group, known, told)

    return _by_group(outages, judged, _PROPOSED)


def costs(
    outages: DataFrame,
    current_ms: CurrentDelays,
    delays_ms: Sequence[int],
    probe_cost_ms: float,
    *,
    seed: int = 1,
) -> DataFrame:
    """What `delays_ms` come to in all outages of each group, beside the current ones.

    As in `proposals`, but nothing is held out: delays that were made from these outages look
    better here than they are.
    """

    def judged(rows: pd.DataFrame) -> pd.DataFrame:
        group, known, together = _told(rows)
        rng = np.random.default_rng(seed)
        current = _of(current_ms, group)
        said = compare(current, delays_ms, known, probe_cost_ms, rng=rng, concurrent=together)
        return _row(_COUNTS | _COMPARED, group, known, asdict(said))

    return _by_group(outages, judged, _COUNTS | _COMPARED)


def _by_group(outages: DataFrame, judged: _Judged, columns: Mapping[str, str]) -> DataFrame:
    known = outages.where("lower_ms IS NOT NULL").select(
        "group", "opened_at_ms", "last_at_ms", "lower_ms", "upper_ms"
    )
    schema = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
    return known.groupBy("group").applyInPandas(judged, schema)


def _told(rows: pd.DataFrame) -> tuple[str, Outages, npt.NDArray[np.int_]]:
    """Group, outages in the order of time, and which of them are one.

    By every column: rows that differ would else stand as Spark's partitions happened to bring them.
    """
    rows = rows.sort_values(["opened_at_ms", "last_at_ms", "lower_ms", "upper_ms"])
    known = Outages.of(rows["lower_ms"], rows["upper_ms"].astype(float).fillna(np.inf))
    together = concurrent(rows["opened_at_ms"], rows["last_at_ms"])
    return str(rows["group"].iloc[0]), known, together


def _of(current_ms: CurrentDelays, group: str) -> Sequence[int] | None:
    return current_ms.get(group) if isinstance(current_ms, Mapping) else current_ms


def _row(
    columns: Mapping[str, str], group: str, known: Outages, told: Mapping[str, Any]
) -> pd.DataFrame:
    all_told = {"group": group, "outages": len(known), "ended": known.ended, **told}
    return pd.DataFrame({name: pd.Series([all_told.get(name)], dtype=object) for name in columns})
