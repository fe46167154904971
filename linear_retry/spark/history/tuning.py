"""Tunes strategies by recorded outages, and simulates a strategy in them."""

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from typing import Literal, TypeAlias, TypeVar

import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # it has no types
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.errors import ConfigurationError
from linear_retry.records.durations import DAY_MS
from linear_retry.spark.history.outages import group_outages
from linear_retry.spark.lake.lake import EPISODES, Lake
from linear_retry.strategy.delays import MAX_DELAY_S, MAX_DELAYS
from linear_retry.strategy.file import RuleArguments
from linear_retry.strategy.strategy import Strategy
from linear_retry.strategy.tuning.durations import estimate
from linear_retry.strategy.tuning.gaps import Gap, costliest_gap, with_attempts
from linear_retry.strategy.tuning.held_out import Comparison, compare
from linear_retry.strategy.tuning.outages import ClocksApart, Outages, clocks_apart
from linear_retry.strategy.tuning.proposal import TooFew, propose, propose_fixed
from linear_retry.strategy.tuning.solver import Conditions, Unreachable

CurrentDelays: TypeAlias = Sequence[int] | Mapping[str, Sequence[int]]
"""The delays in ms that are used now: the same for all groups, or by group."""

_SEEN = 2 / 3
_LATEST = 100
_DELAY = ("CircuitOpened", "ProbeFailed")


@dataclass(frozen=True, slots=True)
class Tuned:
    """The delays proposed for a group, or why there are none.

    Of its `outages` the first `seen` shaped the proposal; `comparison` is on all later ones, and
    None if there are none. `is_confirmed` if the proposal covered as many of those as was asked.
    `gap` is where it costs most not to know when outages ended; `learning_ms`, the current delays
    with two more attempts in it, would show it. `fixed_ms` is the cheapest fixed interval for as
    many outages; what is proposed is equal to it where nothing else costs clearly less.
    `current_ms` is None if the journal has no delays of the group.
    """

    group: str
    outages: int
    seen: int
    current_ms: tuple[int, ...] | None
    proposal: tuple[int, ...] | TooFew | Unreachable | ClocksApart
    comparison: Comparison | None
    is_confirmed: bool
    gap: Gap | None
    learning_ms: tuple[int, ...] | None = None
    fixed_ms: tuple[int, ...] | None = None

    @property
    def verdict(
        self,
    ) -> Literal["proposed", "not confirmed", "too few", "unreachable", "clocks apart"]:
        """Whether the proposal may be used, or why nothing is proposed."""
        match self.proposal:
            case TooFew():
                return "too few"
            case Unreachable():
                return "unreachable"
            case ClocksApart():
                return "clocks apart"
            case _:
                return "proposed" if self.is_confirmed else "not confirmed"


@dataclass(frozen=True, slots=True)
class Simulated:
    """The costs of a strategy in all `outages` of a group, of which `ended` have a known end."""

    group: str
    outages: int
    ended: int
    current_ms: tuple[int, ...] | None
    comparison: Comparison


_Found = TypeVar("_Found")


def tune(
    outages: DataFrame,
    probe_cost_s: float,
    conditions: Conditions,
    *,
    current: Strategy | None = None,
    journal: DataFrame | None = None,
    seed: int = 1,
) -> list[Tuned]:
    """Proposes the delays that would cost least, for each group in the rows of `episodes`.

    `probe_cost_s`: the cost of one probe, as seconds of waiting after the end of an outage. The
    proposals are compared with `current`, the strategy used now, or else with the delays recorded
    in the rows of `journal`; without either, with none. Rows of `group_outages` do too, where no
    `journal` is given; of episodes, it makes these, and proposes nothing where the clocks of two
    members disagree: one outage would be several.
    """
    current_ms = _current(outages, current, journal)
    return proposals(outages, current_ms, probe_cost_s * 1000, conditions, seed=seed)


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
    those of `current_ms`, in milliseconds and with intervals, from the others. The same outages and
    `seed` give the same results, in whatever order and partitions they come.
    """

    apart = _clocks_apart(outages)

    def tuned(group: str, known: Outages) -> Tuned:
        current = _delays_of(current_ms, group)
        if (clocks := apart.get(group)) is not None:
            return Tuned(group, len(known), 0, current, clocks, None, False, None)
        return tuned_from(group, known, current, probe_cost_ms, conditions, seed=seed)

    return by_group(outages, tuned)


def tuned_from(
    group: str,
    known: Outages,
    current_ms: tuple[int, ...] | None,
    probe_cost_ms: float,
    conditions: Conditions,
    *,
    seed: int,
) -> Tuned:
    """Proposes delays for one group from its outages, in the order of time."""
    seen, others = known.split(int((len(known) - 1) * _SEEN) + 1)
    proposal, fixed_ms, comparison = propose(seen, probe_cost_ms, conditions), None, None
    if isinstance(proposal, tuple):
        fixed_ms = propose_fixed(seen, probe_cost_ms, conditions)
        if len(others):
            rng = np.random.default_rng(seed)
            beside = None if fixed_ms == proposal else fixed_ms
            comparison = compare(
                current_ms, proposal, others, probe_cost_ms, rng=rng, fixed_ms=beside
            )
    cost_ms = 0.0 if comparison is None else comparison.proposed.total_ms.mean
    gap = costliest_gap(
        known, estimate(known), probe_cost_ms, cost_ms, shortest_ms=conditions.shortest_ms
    )
    return Tuned(
        group=group,
        outages=len(known),
        seen=len(seen),
        current_ms=current_ms,
        proposal=proposal,
        comparison=comparison,
        is_confirmed=comparison is not None and comparison.confirms(conditions.cover),
        gap=gap,
        learning_ms=None if gap is None or current_ms is None else with_attempts(current_ms, gap),
        fixed_ms=fixed_ms,
    )


def simulate(
    outages: DataFrame,
    strategy: Strategy,
    probe_cost_s: float = 0,
    *,
    current: Strategy | None = None,
    journal: DataFrame | None = None,
    seed: int = 1,
) -> list[Simulated]:
    """The costs of `strategy` in the outages of each group; arguments as of `tune`.

    Nothing is held out: a strategy that was made from these outages looks better here than it is.
    """
    current_ms, delays_ms = _current(outages, current, journal), mean_waits_ms(strategy)

    def simulated(group: str, known: Outages) -> Simulated:
        now_ms, rng = _delays_of(current_ms, group), np.random.default_rng(seed)
        comparison = compare(now_ms, delays_ms, known, probe_cost_s * 1000, rng=rng)
        return Simulated(group, len(known), known.ended, now_ms, comparison)

    return by_group(outages, simulated)


def mean_waits_ms(strategy: Strategy) -> tuple[int, ...]:
    """The strategy's delays with the mean of the jitter, which is half of its maximum."""
    return strategy.reached_ms(1 + strategy.jitter / 2)


def groups(lake: Lake) -> list[str]:
    """The groups in the table `episodes`. Raises `LakeError` if there is no such table."""
    return sorted(row["group"] for row in lake.table(EPISODES).select("group").distinct().collect())


def by_group(outages: DataFrame, function: Callable[[str, Outages], _Found]) -> list[_Found]:
    """Calls `function` for each group that has outages with known bounds, sorted by name."""

    def pickled(group: str, known: Outages) -> pd.DataFrame:
        return pd.DataFrame({"group": [group], "found": [pickle.dumps(function(group, known))]})

    pickles = in_groups(outages, pickled, "group string, found binary")
    return [pickle.loads(row["found"]) for row in pickles.orderBy("group").collect()]


def in_groups(
    outages: DataFrame, function: Callable[[str, Outages], pd.DataFrame], schema: str
) -> DataFrame:
    """The rows that `function` makes of each group that has outages with known bounds.

    Rows of `episodes` become those of `group_outages`. They are sorted by time, else their order
    would depend on Spark's partitions.
    """
    columns = ["last_at_ms", "lower_ms", "upper_ms"]

    def called(rows: pd.DataFrame) -> pd.DataFrame:
        rows, group = rows.sort_values(columns), str(rows["group"].iloc[0])
        upper_ms = rows["upper_ms"].astype(float).fillna(np.inf)
        return function(group, Outages.of(rows["lower_ms"], upper_ms))

    # An episode is of one instance, an outage of all.
    one_each = group_outages(outages) if "instance" in outages.columns else outages
    known = one_each.where("lower_ms IS NOT NULL").select("group", *columns)
    return known.groupBy("group").applyInPandas(called, schema)


def _clocks_apart(episodes: DataFrame) -> dict[str, ClocksApart]:
    """The groups in which the clocks of two members disagree; none of rows that name no member."""
    if "instance" not in episodes.columns:
        return {}

    def called(rows: pd.DataFrame) -> pd.DataFrame:
        opened = {str(name): each.to_numpy() for name, each in rows.groupby("member")["at_ms"]}
        return pd.DataFrame(
            {"group": [rows["group"].iloc[0]], "found": [pickle.dumps(clocks_apart(opened))]}
        )

    # As `group_outages` has it: the brokers' clock, where the journal has their times.
    clock_ms = F.when(F.col("clock_ms").between(-DAY_MS, DAY_MS), F.col("clock_ms")).otherwise(0)
    opened = episodes.where("lower_ms IS NOT NULL AND opened_at_ms IS NOT NULL").select(
        "group", "member", (F.col("opened_at_ms") + clock_ms).alias("at_ms")
    )
    pickles = opened.groupBy("group").applyInPandas(called, "group string, found binary").collect()
    found = {row["group"]: pickle.loads(row["found"]) for row in pickles}
    return {group: clocks for group, clocks in found.items() if clocks is not None}


def episodes_of(lake: Lake, group: str | None) -> DataFrame:
    """The rows of the table `episodes`, of all groups or of one.

    Raises `LakeError` if there is no such table, and `ConfigurationError` if it has no such group.
    """
    known = lake.table(EPISODES)
    if group is None:
        return known
    chosen = known.where(known["group"] == group)
    if chosen.isEmpty():
        there = ", ".join(map(repr, groups(lake)))
        raise ConfigurationError(
            f"{lake.path}/{EPISODES}: no outage is of group {group!r}; there are: {there}"
        )
    return chosen


def of_rule(episodes: DataFrame, rules: Sequence[RuleArguments], number: int) -> DataFrame:
    """The episodes whose error the rule with this number, from 1 on, is the first to take.

    By the names of the errors themselves: a journal does not have the classes that they derive
    from.
    """
    *earlier, chosen = map(_takes, rules[:number])
    for other in earlier:
        chosen &= ~other
    return episodes.where(chosen)


def _takes(rule: RuleArguments) -> Column:
    """Whether a rule takes the error of an episode, in the topic of its message."""
    names = [name.removeprefix("builtins.") for name in rule["errors"] or ()]
    is_named = F.lit(True) if rule["errors"] is None else F.col("error_type").isin(names)
    # Python's \Z is the very end, which Java writes \z.
    globs = "|".join(translate(glob).replace(r"\Z", r"\z") for glob in rule["topics"])
    in_topic = F.coalesce("message_topic", F.lit("")).rlike(f"^(?:{globs})")
    return F.coalesce(is_named & in_topic, F.lit(False))


def _current(
    outages: DataFrame, current: Strategy | None, journal: DataFrame | None
) -> CurrentDelays:
    if current is not None:
        return mean_waits_ms(current)
    return {} if journal is None else _recorded_delays(journal, outages)


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
