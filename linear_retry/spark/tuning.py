"""Tunes strategies by the outages in a lake, and simulates a strategy in them."""

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd  # type: ignore[import-untyped]  # it has no types
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.errors import ConfigurationError
from linear_retry.spark.episodes import OUTAGES
from linear_retry.spark.lake.lake import JOURNAL, Lake
from linear_retry.strategy.delays import MAX_DELAY_S, MAX_DELAYS
from linear_retry.strategy.strategy import Strategy
from linear_retry.tuning.held_out import Comparison, compare
from linear_retry.tuning.outages import Outages, concurrent
from linear_retry.tuning.proposal import TooFew, propose
from linear_retry.tuning.solver import Conditions, Unreachable

CurrentDelays: TypeAlias = Sequence[int] | Mapping[str, Sequence[int]]
"""The delays in ms that are used now: the same for all groups, or by group."""

_SEEN = 2 / 3
_LATEST = 100
_DELAY = ("CircuitOpened", "ProbeFailed")


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


_Found = TypeVar("_Found")
Which: TypeAlias = npt.NDArray[np.int_]
"""A number for each outage, the same for concurrent ones."""


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

    `probe_cost_s`: the cost of one probe, as seconds of waiting after the end of an outage.
    `current` is the strategy used now, by default what the journal has recorded. Raises `LakeError`
    if a table is missing, and `ConfigurationError` if it has no such group.
    """
    known = _outages(lake, group)
    current_ms = _current(lake, known, current)
    return proposals(known, current_ms, probe_cost_s * 1000, conditions, seed=seed)


def proposals(
    outages: DataFrame,
    current_ms: CurrentDelays,
    probe_cost_ms: float,
    conditions: Conditions,
    *,
    seed: int = 1,
) -> list[Tuned]:
    """Proposes delays for each group that has outages with known bounds.

    The proposal comes from the first two thirds of them, in the order of time; its costs, beside
    those of `current_ms`, in milliseconds and with intervals, from the others. Outages that members
    of a group had at the same time are one: they are seen, or drawn, together. The same outages and
    `seed` give the same results, in whatever order and partitions they come.
    """

    def tuned(group: str, known: Outages, which: Which) -> Tuned:
        is_seen = which <= which[int((len(known) - 1) * _SEEN)]
        seen, others = known.chosen(is_seen), known.chosen(~is_seen)
        current, comparison = _delays_of(current_ms, group), None
        proposal = propose(seen, probe_cost_ms, conditions)
        if isinstance(proposal, tuple) and len(others):  # otherwise all of them overlap
            rng, unseen = np.random.default_rng(seed), which[~is_seen]
            comparison = compare(
                current, proposal, others, probe_cost_ms, rng=rng, concurrent=unseen
            )
        return Tuned(group, len(known), len(seen), current, proposal, comparison)

    return by_group(outages, "opened_at_ms", tuned)


def simulate(
    lake: Lake,
    strategy: Strategy,
    probe_cost_s: float = 0,
    *,
    group: str | None = None,
    current: Strategy | None = None,
    seed: int = 1,
) -> list[Simulated]:
    """The costs of `strategy` in the outages of each group, or of one; arguments as of `tune`.

    Nothing is held out: a strategy that was made from these outages looks better here than it is.
    """
    outages = _outages(lake, group)
    current_ms, delays_ms = _current(lake, outages, current), mean_waits_ms(strategy)

    def simulated(group: str, known: Outages, which: Which) -> Simulated:
        now_ms, rng = _delays_of(current_ms, group), np.random.default_rng(seed)
        comparison = compare(
            now_ms, delays_ms, known, probe_cost_s * 1000, rng=rng, concurrent=which
        )
        return Simulated(group, len(known), known.ended, now_ms, comparison)

    return by_group(outages, "opened_at_ms", simulated)


def mean_waits_ms(strategy: Strategy) -> tuple[int, ...]:
    """The strategy's delays with the mean of the jitter, which is half of its maximum."""
    return strategy.reached_ms(1 + strategy.jitter / 2)


def groups(lake: Lake) -> list[str]:
    """The groups in the table `outages`. Raises `LakeError` if there is no such table."""
    return sorted(row["group"] for row in lake.table(OUTAGES).select("group").distinct().collect())


def by_group(
    outages: DataFrame, began: str, function: Callable[[str, Outages, Which], _Found]
) -> list[_Found]:
    """Calls `function` for each group that has outages with known bounds, sorted by name.

    Its outages are sorted by time, then by every column: otherwise the order of rows would depend
    on Spark's partitions.
    """
    columns = [began, "last_at_ms", "lower_ms", "upper_ms"]

    def pickled(rows: pd.DataFrame) -> pd.DataFrame:
        rows, group = rows.sort_values(columns), str(rows["group"].iloc[0])
        known = Outages.of(rows["lower_ms"], rows["upper_ms"].astype(float).fillna(np.inf))
        found = function(group, known, concurrent(rows[began], rows["last_at_ms"]))
        return pd.DataFrame({"group": [group], "found": [pickle.dumps(found)]})

    known = outages.where("lower_ms IS NOT NULL").select("group", *columns)
    pickles = known.groupBy("group").applyInPandas(pickled, "group string, found binary")
    return [pickle.loads(row["found"]) for row in pickles.orderBy("group").collect()]


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
    return _recorded_delays(lake.table(JOURNAL), outages)


def _delays_of(current_ms: CurrentDelays, group: str) -> tuple[int, ...] | None:
    """The current delays of one group, if they are known."""
    found = current_ms.get(group) if isinstance(current_ms, Mapping) else current_ms
    return None if found is None else tuple(found)


def _recorded_delays(journal: DataFrame, outages: DataFrame) -> dict[str, tuple[int, ...]]:
    """Returns, by group, the wait in ms after failure 1, 2 and so on, as far as was ever reached.

    Each is the median of the last 100 in the table `journal`: a changed strategy counts as soon as
    it has been seen often enough, and a wait has its usual jitter. Only outages with known bounds
    count: others may have been a wait for Kafka.
    """
    failed = F.transform("probes", lambda probe: probe["sequence"])
    entries = outages.where("lower_ms IS NOT NULL").select(
        "instance", F.explode(F.concat(F.array("sequence"), failed)).alias("sequence")
    )
    recorded = journal.where(
        F.col("event").isin(*_DELAY)
        & F.col("failures").between(1, MAX_DELAYS)
        & F.col("delay_s").between(0, MAX_DELAY_S)
    ).join(entries, ["instance", "sequence"], "left_semi")
    latest = Window.partitionBy("group", "failures").orderBy(F.desc("at_ms"), F.desc("delay_s"))
    found = (
        recorded.withColumn("age", F.row_number().over(latest))
        .where(F.col("age") <= _LATEST)
        .groupBy("group", "failures")
        .agg(F.median("delay_s").alias("delay_s"))
    )
    delays: dict[str, dict[int, int]] = {}
    for row in found.collect():
        delays.setdefault(row["group"], {})[row["failures"]] = round(row["delay_s"] * 1000)
    return {group: _without_gap(each) for group, each in delays.items()}


def _without_gap(delays: dict[int, int]) -> tuple[int, ...]:
    """The delays up to the first failure that was never recorded."""
    known: list[int] = []
    while (delay_ms := delays.get(len(known) + 1)) is not None:
        known.append(delay_ms)
    return tuple(known)
