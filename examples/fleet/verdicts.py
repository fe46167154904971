"""Compares what the pipeline found with what the model says is true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from examples.fleet.costs import cost
from examples.fleet.model import Outage, Service
from examples.fleet.real_members import RealOutcome
from examples.fleet.simulated_members import Episode, ServiceHistory
from linear_retry.demo.evidence import Verdict
from linear_retry.strategy.strategy import Strategy
from linear_retry.strategy.tuning.solver import OutageDurations

Row = Mapping[str, Any]

_EPISODE = (
    *("group", "instance", "sequence", "kind", "opened_at_ms", "closed_at_ms", "outcome"),
    *("lower_ms", "upper_ms"),
)


_TOLERANCE = 0.02
"""The delays come from the first two thirds of the week, and are compared on all of it."""


@dataclass(frozen=True, slots=True)
class TuningGoal:
    """The group to tune, the share of outages to cover, and the cost of a probe."""

    group: str = "billing"
    cover: float = 0.95
    probe_cost_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Lake:
    """The outages in the lake, and how many dead letters of each group and reason."""

    outages: tuple[Row, ...]
    letters: Counter[tuple[str, str]]

    @classmethod
    def read(cls, directory: Path) -> Lake:
        """Reads the tables without Spark."""
        letters = _rows(directory / "dead_letters", ("group_id", "reason"))
        return cls(
            tuple(_rows(directory / "episodes", _EPISODE)),
            Counter((row["group_id"], row["reason"]) for row in letters),
        )


def _rows(table: Path, columns: Sequence[str]) -> list[Row]:
    found: list[Row] = DeltaTable(table).to_pyarrow_table(columns=list(columns)).to_pylist()
    return found


def compare(
    lake: Lake, model: Mapping[str, ServiceHistory], real: Sequence[RealOutcome]
) -> tuple[Verdict, ...]:
    """Judges outages, bounds and letters: all must be found, and nothing else."""
    episodes = [episode for history in model.values() for episode in history.episodes]
    known = {(each.instance, each.sequence): each for each in episodes}
    of_model = [row for row in lake.outages if row["group"] in model]
    return (
        _kinds(of_model, known),
        _bounds(of_model, known),
        _real_outages(lake.outages, real),
        _letters(lake.letters, model, real),
    )


def _kinds(rows: Sequence[Row], known: Mapping[tuple[str, int], Episode]) -> Verdict:
    """Each circuit that simulated members opened is there once, with how it ended."""
    actual = Counter((row["instance"], row["sequence"], row["kind"]) for row in rows)
    expected = Counter((each.instance, each.sequence, each.kind) for each in known.values())
    kinds = Counter(row["kind"] for row in rows)
    return Verdict(
        "each outage is found once, with how it ended",
        ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()),
        (
            *(f"missing: {instance}/{n}, {kind}" for instance, n, kind in expected - actual),
            *(
                f"not in the model: {instance}/{n}, {kind}"
                for instance, n, kind in actual - expected
            ),
        ),
    )


def _bounds(rows: Sequence[Row], known: Mapping[tuple[str, int], Episode]) -> Verdict:
    """The true duration lies within the bounds of each outage."""
    pairs = [(row, known.get((row["instance"], row["sequence"]))) for row in rows]
    bounded = [(row, each) for row, each in pairs if each and row["lower_ms"] is not None]
    ended = sum(row["upper_ms"] is not None for row, _ in bounded)
    return Verdict(
        "the true duration is within the bounds found",
        f"{ended} with both bounds, {len(bounded) - ended} with a lower bound only",
        tuple(
            f"{each.group}: {each.duration_ms} ms is not in {row['lower_ms']} to {row['upper_ms']}"
            for row, each in bounded
            if not _is_within(each.duration_ms, row["lower_ms"], row["upper_ms"])
        ),
    )


def _is_within(duration_ms: int | None, lower_ms: int, upper_ms: int | None) -> bool:
    if duration_ms is None:
        return upper_ms is None
    # If the outage ended before its first failure was recorded, nothing else is known of it.
    return (lower_ms == 0 or lower_ms < duration_ms) and (
        upper_ms is None or duration_ms <= upper_ms
    )


def _real_outages(rows: Iterable[Row], real: Sequence[RealOutcome]) -> Verdict:
    """Each outage of a real consumer matches a true one; real clocks may be late, but not early."""
    ours = {outcome.group: outcome.calendar for outcome in real}
    recovered = [row for row in rows if row["group"] in ours and row["outcome"] == "recovered"]
    wrong = [
        f"{row['group']}: no true outage matches the one of {row['opened_at_ms']}"
        for row in recovered
        if not any(_matches(row, outage) for outage in ours[row["group"]].outages)
    ]
    unseen = [f"{group}: no outage was found" for group in ours if not _some(recovered, group)]
    return Verdict(
        "outages of real consumers match true ones",
        f"{len(recovered)} outages of {len(ours)} groups",
        (*wrong, *unseen),
    )


def _matches(row: Row, outage: Outage) -> bool:
    """Whether the outage ended after the last failed probe was due and before the circuit closed.

    Where no probe failed, it had begun when the first failure was recorded; it may have ended by
    then.
    """
    opened_ms, closed_ms, lower_ms = (
        int(row[name] or 0) for name in ("opened_at_ms", "closed_at_ms", "lower_ms")
    )
    if outage.ends_ms > closed_ms:
        return False
    if lower_ms == 0:
        return outage.begins_ms <= opened_ms
    return outage.ends_ms > opened_ms + lower_ms


def _some(rows: Iterable[Row], group: str) -> bool:
    return any(row["group"] == group for row in rows)


def _letters(
    found: Counter[tuple[str, str]],
    model: Mapping[str, ServiceHistory],
    real: Iterable[RealOutcome],
) -> Verdict:
    expected = Counter(
        (group, str(reason)) for group, history in model.items() for reason, _ in history.letters
    )
    expected.update(
        {(outcome.group, "permanent"): outcome.letters for outcome in real if outcome.letters}
    )
    reasons: Counter[str] = Counter()
    for (_, reason), count in found.items():
        reasons[reason] += count
    return Verdict(
        "each dead letter is found, with its reason",
        ", ".join(f"{count} {reason}" for reason, count in reasons.most_common()),
        tuple(
            f"{group}, {reason}: {found[group, reason]} found, {expected[group, reason]} expected"
            for group, reason in sorted(found.keys() | expected.keys())
            if found[group, reason] != expected[group, reason]
        ),
    )


def judge_tuned(service: Service, history: ServiceHistory, file: Path, goal: TuningGoal) -> Verdict:
    """Compares what the current and the proposed delays cost over the true outages."""
    true_ms = [each.duration_ms for each in history.episodes if each.duration_ms is not None]
    durations = OutageDurations.of(
        (duration_ms, 1 / len(history.episodes)) for duration_ms in true_ms
    )
    probe_ms = goal.probe_cost_s * 1000
    current, proposed = (
        cost(strategy.delays_ms, durations) for strategy in (service.strategy, Strategy.load(file))
    )
    costs = (
        f"{name} {one.total_ms(probe_ms) / 1000:.1f} s per outage, {one.covered:.1%} covered"
        for name, one in (("current", current), ("proposed", proposed))
    )
    missed = proposed.covered < goal.cover - _TOLERANCE
    return Verdict(
        f"proposed delays for {service.group}, over {len(true_ms)} true outages",
        "; ".join(costs),
        (f"the goal is {goal.cover:.1%} covered",) * missed,
    )
