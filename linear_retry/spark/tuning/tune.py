"""Tunes strategies by the outages in a lake, and simulates a strategy in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Row

from linear_retry.errors import ConfigurationError
from linear_retry.spark.episodes import OUTAGES
from linear_retry.spark.lake.lake import JOURNAL, Lake
from linear_retry.spark.tuning.current_delays import recorded_delays
from linear_retry.spark.tuning.proposals import CurrentDelays, costs, delays_of, proposals
from linear_retry.strategy.strategy import Strategy
from linear_retry.tuning.durations import Estimate
from linear_retry.tuning.held_out import Comparison, Costs, Mean
from linear_retry.tuning.proposal import TooFew
from linear_retry.tuning.solver import Conditions, Unreachable


@dataclass(frozen=True, slots=True)
class Tuned:
    """The delays proposed for a group, or why there are none.

    Of its `outages` the first `seen` shaped the proposal; `comparison` is on all later ones, and
    None if there are none. `current_ms` is None if the journal has no delays of the group.
    """

    group: str
    outages: int
    seen: int
    current_ms: tuple[int, ...] | None
    proposal: tuple[int, ...] | TooFew | Unreachable
    comparison: Comparison | None


@dataclass(frozen=True, slots=True)
class Simulated:
    """The costs of a strategy in all `outages` of a group, of which `ended` have a known end."""

    group: str
    outages: int
    ended: int
    current_ms: tuple[int, ...] | None
    comparison: Comparison


def tune(
    lake: Lake,
    probe_cost_s: float,
    conditions: Conditions,
    *,
    group: str | None = None,
    current: Strategy | None = None,
    seed: int = 1,
) -> list[Tuned]:
    """Proposes the delays that would cost least, for each group in the table `outages` or for one.

    `probe_cost_s`: so many seconds of waiting after the end of an outage are as bad as one probe.
    `current` is the strategy used now, by default what the journal has recorded. Raises `LakeError`
    if a table is missing, and `ConfigurationError` if it has no such group.
    """
    known = _outages(lake, group)
    current_ms = _current(lake, known, current)
    rows = proposals(known, current_ms, probe_cost_s * 1000, conditions, seed=seed).collect()
    return [_tuned(row, current_ms) for row in _ordered(rows)]


def simulate(
    lake: Lake,
    strategy: Strategy,
    probe_cost_s: float = 0,
    *,
    group: str | None = None,
    current: Strategy | None = None,
    seed: int = 1,
) -> list[Simulated]:
    """The costs of `strategy` in the outages of each group, or of one; arguments as of `tune`."""
    known = _outages(lake, group)
    current_ms = _current(lake, known, current)
    rows = costs(known, current_ms, mean_waits_ms(strategy), probe_cost_s * 1000, seed=seed)
    return [
        Simulated(
            *(row.group, row.outages, row.ended, delays_of(current_ms, row.group)), _comparison(row)
        )
        for row in _ordered(rows.collect())
    ]


def mean_waits_ms(strategy: Strategy) -> tuple[int, ...]:
    """The strategy's delays with the mean of the jitter, which is half of its maximum."""
    return tuple(round(wait_ms * (1 + strategy.jitter / 2)) for wait_ms in strategy.delays_ms)


def groups(lake: Lake) -> list[str]:
    """The groups in the table `outages`. Raises `LakeError` if there is no such table."""
    return sorted(row["group"] for row in lake.table(OUTAGES).select("group").distinct().collect())


def _outages(lake: Lake, group: str | None) -> DataFrame:
    known = lake.table(OUTAGES)
    if group is None:
        return known
    chosen = known.where(known["group"] == group)
    if chosen.isEmpty():
        there = ", ".join(map(repr, groups(lake)))
        raise ConfigurationError(
            f"{lake.path}/{OUTAGES}: no outage is of group {group!r}; there are: {there}"
        )
    return chosen


def _current(lake: Lake, outages: DataFrame, current: Strategy | None) -> CurrentDelays:
    if current is not None:
        return mean_waits_ms(current)
    return recorded_delays(lake.table(JOURNAL), outages)


def _ordered(rows: list[Row]) -> list[Any]:
    return sorted(rows, key=lambda row: str(row["group"]))


def _tuned(row: Any, current_ms: CurrentDelays) -> Tuned:
    proposal: tuple[int, ...] | TooFew | Unreachable
    match row.verdict:
        case "too few":
            proposal = TooFew(row.seen_ended, row.needed, row.cover)
        case "unreachable":
            proposal = Unreachable(row.cover)
        case _:
            proposal = tuple(row.delays_ms)
    comparison = None if row.proposed is None else _comparison(row)
    current = delays_of(current_ms, row.group)
    return Tuned(row.group, row.outages, row.seen, current, proposal, comparison)


def _comparison(row: Any) -> Comparison:
    durations = Estimate.of(*row.durations)
    if row.current is None:
        return Comparison(None, _costs(row.proposed), None, durations)
    return Comparison(_costs(row.current), _costs(row.proposed), Mean(*row.saved), durations)


def _costs(found: Row) -> Costs:
    return Costs(*(Mean(*each) for each in found))
