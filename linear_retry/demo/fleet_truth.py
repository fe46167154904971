"""Is what the pipeline found what the model says is true?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds  # type: ignore[import-untyped]  # it has no types

from linear_retry.demo.evidence import Verdict
from linear_retry.demo.fleet import Outage, Service
from linear_retry.demo.fleet_lives import Episode, Said
from linear_retry.demo.fleet_members import Lived
from linear_retry.strategy.strategy import Strategy
from linear_retry.tuning.solver import OutageLengths, cost

Row = Mapping[str, Any]

_OUTAGES = (
    *("group", "instance", "sequence", "kind", "opened_at_ms", "closed_at_ms", "outcome"),
    *("lower_ms", "upper_ms"),
)


_SWAY = 0.02
"""The delays come from the first two thirds of the week, and are judged by all of it."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """What is asked of the delays for one group."""

    group: str = "billing"
    cover: float = 0.99
    probe_cost_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Found:
    """What is in the lake."""

    outages: tuple[Row, ...]
    letters: Counter[tuple[str, str]]

    @classmethod
    def of(cls, lake: Path) -> Found:
        """Read as anybody may, without Spark."""
        letters = _rows(lake / "dead_letters", ("group_id", "reason"))
        return cls(
            tuple(_rows(lake / "outages", _OUTAGES)),
            Counter((row["group_id"], row["reason"]) for row in letters),
        )


def _rows(table: Path, columns: Sequence[str]) -> list[Row]:
    found: list[Row] = ds.dataset(table, partitioning="hive").to_table(list(columns)).to_pylist()
    return found


def compare(found: Found, model: Mapping[str, Said], real: Sequence[Lived]) -> tuple[Verdict, ...]:
    """Everything that is to be found, and nothing else."""
    episodes = [episode for said in model.values() for episode in said.episodes]
    known = {(each.instance, each.sequence): each for each in episodes}
    of_model = [row for row in found.outages if row["group"] in model]
    return (
        _kinds(of_model, known),
        _bounds(of_model, known),
        _of_real(found.outages, real),
        _letters(found.letters, model, real),
    )


def _kinds(rows: Sequence[Row], known: Mapping[tuple[str, int], Episode]) -> Verdict:
    """Each circuit that the generated members opened, once, and how it ended."""
    there = Counter((row["instance"], row["sequence"], row["kind"]) for row in rows)
    true = Counter((each.instance, each.sequence, each.kind) for each in known.values())
    kinds = Counter(row["kind"] for row in rows)
    return Verdict(
        "every outage, once, and how it ended",
        ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()),
        (
            *(f"not found: {instance}/{n}, {kind}" for instance, n, kind in true - there),
            *(f"never was: {instance}/{n}, {kind}" for instance, n, kind in there - true),
        ),
    )


def _bounds(rows: Sequence[Row], known: Mapping[tuple[str, int], Episode]) -> Verdict:
    """What is known of a length is true of it."""
    pairs = [(row, known.get((row["instance"], row["sequence"]))) for row in rows]
    told = [(row, each) for row, each in pairs if each and row["lower_ms"] is not None]
    ended = sum(row["upper_ms"] is not None for row, _ in told)
    return Verdict(
        "its true length within the bounds found",
        f"{ended} with an end, {len(told) - ended} of which only this long is known",
        tuple(
            f"{each.group}: {each.length_ms} ms is not in {row['lower_ms']} to {row['upper_ms']}"
            for row, each in told
            if not _is_within(each.length_ms, row["lower_ms"], row["upper_ms"])
        ),
    )


def _is_within(length_ms: int | None, lower_ms: int, upper_ms: int | None) -> bool:
    if length_ms is None:
        return upper_ms is None
    # Of an outage that ended before its first failure was told, only that is known.
    return (lower_ms == 0 or lower_ms < length_ms) and (upper_ms is None or length_ms <= upper_ms)


def _of_real(rows: Iterable[Row], real: Sequence[Lived]) -> Verdict:
    """Real clocks and threads are late, by how much nobody knows, but never early."""
    ours = {lived.group: lived.calendar for lived in real}
    recovered = [row for row in rows if row["group"] in ours and row["outcome"] == "recovered"]
    wrong = [
        f"{row['group']}: no outage is like that of {row['opened_at_ms']}"
        for row in recovered
        if not any(_is_like(row, outage) for outage in ours[row["group"]].outages)
    ]
    unseen = [f"{group}: no outage was found" for group in ours if not _some(recovered, group)]
    return Verdict(
        "the same of the real consumers",
        f"{len(recovered)} outages of {len(ours)} groups",
        (*wrong, *unseen),
    )


def _is_like(row: Row, outage: Outage) -> bool:
    """It ended after the last failed probe was due, and before the circuit closed.

    Where no probe failed, it had begun when the first failure was told, and may have ended by then.
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
    found: Counter[tuple[str, str]], model: Mapping[str, Said], real: Iterable[Lived]
) -> Verdict:
    true = Counter(
        (group, str(reason)) for group, said in model.items() for reason, _ in said.letters
    )
    true.update({(lived.group, "permanent"): lived.letters for lived in real if lived.letters})
    reasons: Counter[str] = Counter()
    for (_, reason), count in found.items():
        reasons[reason] += count
    return Verdict(
        "every dead letter, and its reason",
        ", ".join(f"{count} {reason}" for reason, count in reasons.most_common()),
        tuple(
            f"{group}, {reason}: {found[group, reason]} found, {true[group, reason]} true"
            for group, reason in sorted(found.keys() | true.keys())
            if found[group, reason] != true[group, reason]
        ),
    )


def tuned(service: Service, said: Said, file: Path, asked: Tuned) -> Verdict:
    """What the present and the proposed delays come to in the outages as they truly were."""
    true_ms = [each.length_ms for each in said.episodes if each.length_ms is not None]
    lengths = OutageLengths.of((length_ms, 1 / len(said.episodes)) for length_ms in true_ms)
    probe_ms = asked.probe_cost_s * 1000
    present, proposed = (
        cost(strategy.delays_ms, lengths) for strategy in (service.strategy, Strategy.load(file))
    )
    told = (
        f"{name} {one.total_ms(probe_ms) / 1000:.1f} s each, {one.covered:.1%} covered"
        for name, one in (("present", present), ("proposed", proposed))
    )
    missed = proposed.covered < asked.cover - _SWAY
    return Verdict(
        f"the delays for {service.group}, in {len(true_ms)} true outages",
        "; ".join(told),
        (f"{asked.cover:.1%} were to be covered",) * missed,
    )
