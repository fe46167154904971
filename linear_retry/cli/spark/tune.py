"""Tunes and simulates on recorded outages: `spark tune`, `strategy simulate --lake`."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import typer

from linear_retry.cli.options.values import load, load_one, print_heading
from linear_retry.cli.output.exit_codes import (
    INSUFFICIENT_DATA,
    NEGATIVE,
    UNCONFIRMED,
    USAGE_ERROR,
    fail,
)
from linear_retry.cli.output.rows import write_json
from linear_retry.cli.spark import comparison
from linear_retry.cli.spark.options import ProposalFile, RecordedOutages
from linear_retry.errors import StrategyError
from linear_retry.files import printable_path
from linear_retry.records.durations import duration_text
from linear_retry.records.printable import one_line
from linear_retry.spark import JOURNAL, Lake, Simulated, Tuned, groups
from linear_retry.spark import simulate as simulate_in
from linear_retry.spark import tune as tune_in
from linear_retry.spark.history.tuning import episodes_of, of_rule
from linear_retry.spark.session import session
from linear_retry.strategy.file import content_of, elements, parse_all
from linear_retry.strategy.strategy import Strategy
from linear_retry.strategy.tuning.outages import ClocksApart
from linear_retry.strategy.tuning.proposal import TooFew
from linear_retry.strategy.tuning.solver import Conditions, Unreachable

_Found = TypeVar("_Found")


def tune(
    lake: str,
    probe_cost_ms: int,
    conditions: Conditions,
    recorded: RecordedOutages,
    rule: int | None,
    target: ProposalFile,
    *,
    as_json: bool,
) -> None:
    """Proposes and compares, prints the result, and writes the strategy to `target`.

    `rule`: for the outages of that rule of the current strategy's file.
    """
    target.check()

    def tuned(outages: Any, **options: Any) -> list[Tuned]:
        return tune_in(outages, probe_cost_ms / 1000, conditions, **options)

    current = None if recorded.current is None else _valid(load_one(recorded.current, rule))
    chosen = None if rule is None or recorded.current is None else (recorded.current, rule)
    is_one = target.to is not None
    found = _in_lake(lake, recorded, tuned, current, chosen, is_one=is_one)
    if as_json:
        write_json(map(comparison.tuned_json, found))
    else:
        show(found, conditions)
    proposed = [each for each in found if isinstance(each.proposal, tuple)]
    if not proposed:
        raise typer.Exit(INSUFFICIENT_DATA)
    if not all(each.is_confirmed for each in proposed):
        raise typer.Exit(UNCONFIRMED)
    [*_, one] = proposed
    _write(target, one, probe_cost_ms, conditions, as_json)


def simulate(
    lake: str,
    strategy: Strategy,
    rule: tuple[Path, int] | None,
    probe_cost_ms: int,
    recorded: RecordedOutages,
    as_json: dict[str, Any] | None,
) -> None:
    """Simulates and prints; `as_json` is the beginning of each JSON object.

    `rule`: in the outages of this rule of a file only.
    """

    def simulated(outages: Any, **options: Any) -> list[Simulated]:
        return simulate_in(outages, strategy, probe_cost_ms / 1000, **options)

    current = None if recorded.current is None else _valid(load(recorded.current))
    found = _in_lake(lake, recorded, simulated, current, rule)
    if not found:
        fail("no outage has a known duration", INSUFFICIENT_DATA)
    if as_json is not None:
        write_json(as_json | comparison.simulated_json(one) for one in found)
        return
    print_heading(strategy)
    for one in found:
        typer.echo(f"{one_line(one.group)}: {one.outages} outages, {one.ended} with a known end")
        comparison.show(one.comparison, "simulated", one.outages)


def _valid(found: Strategy | StrategyError) -> Strategy:
    """Ends the command if the strategy of --current is invalid."""
    if isinstance(found, StrategyError):
        fail("\n".join(found.problems), NEGATIVE)
    return found


def _in_lake(
    lake: str,
    recorded: RecordedOutages,
    call: Callable[..., list[_Found]],
    current: Strategy | None,
    rule: tuple[Path, int] | None,
    *,
    is_one: bool = False,
) -> list[_Found]:
    """Returns the result of `call` for the outages of a group, or of all; of a rule, if given."""
    with session(recorded.master) as spark:
        where = Lake(spark, lake)
        if is_one and recorded.group is None:
            _check_one(groups(where))
        outages = episodes_of(where, recorded.group)
        if rule is not None:
            file, number = rule
            rules = parse_all(content_of(file), printable_path(file))
            outages = of_rule(outages, rules, number)
        journal = where.table(JOURNAL) if current is None else None
        return call(outages, current=current, journal=journal, seed=recorded.seed)


def _check_one(names: list[str]) -> None:
    if len(names) > 1:
        there = ", ".join(map(repr, names))
        fail(f"--to is for one strategy; choose its group with --group: {there}", USAGE_ERROR)


def _write(
    target: ProposalFile, one: Tuned, probe_cost_ms: int, conditions: Conditions, as_json: bool
) -> None:
    if target.to is None:
        return
    assert isinstance(one.proposal, tuple)
    price = duration_text(probe_cost_ms)
    target.write(
        one.proposal,
        f"Cheapest for {one.seen} outages of {one.group}, of which it covers {conditions.cover:g}, "
        f"where an attempt costs as much as {price} of waiting",
    )
    if not as_json:
        typer.echo(f"{printable_path(target.to)}: written")


def show(found: list[Tuned], conditions: Conditions) -> None:
    """Prints each proposal beside the current delays, or why nothing is proposed."""
    if not found:
        typer.echo("no outage has a known duration; nothing is proposed")
    for one in found:
        _print_tuned(one, conditions)


def _print_tuned(one: Tuned, conditions: Conditions) -> None:
    if not isinstance(one.proposal, tuple):
        why = _why_nothing(one.proposal)
        typer.echo(f"{one_line(one.group)}: nothing is proposed: {why}")
        for line in _to_learn(one):
            typer.echo(line)
        return
    later = one.outages - one.seen
    made = f"made from {one.seen} outages, compared on the {later} after them"
    typer.echo(f"{one_line(one.group)}: {made}")
    typer.echo(f"delays: {json.dumps(elements(one.proposal))}")
    if one.comparison is not None:
        comparison.show(one.comparison, "proposed", later, is_confirmed=one.is_confirmed)
    for line in _doubts(one, conditions):
        typer.echo(line)


def _doubts(one: Tuned, conditions: Conditions) -> Iterator[str]:
    """Yields what the proposal could not know, and why it is not written."""
    if one.fixed_ms == one.proposal:
        yield "a fixed interval is proposed: no other delays cost clearly less"
    elif one.fixed_ms is not None:
        yield f"fixed interval: {json.dumps(elements(one.fixed_ms))}"
    yield from _to_learn(one)
    if one.comparison is None:
        yield "not confirmed: none is left to compare on"
        return
    yield from comparison.doubts(one.comparison, one.outages - one.seen)
    if not one.is_confirmed:
        covered = int(one.comparison.proposed.covered.mean * 1000) / 1000
        yield (
            f"not confirmed: it covers {covered:g} of the outages after those that it was made "
            f"from, and --cover is {conditions.cover:g}; ask for less, or wait for more outages"
        )


def _to_learn(one: Tuned) -> Iterator[str]:
    """Yields where nothing is known, and the delays that would show it."""
    if one.gap is not None:
        yield comparison.unknown(one.gap)
    if one.learning_ms is not None:
        yield f"to learn it: {json.dumps(elements(one.learning_ms))}"


def _why_nothing(found: TooFew | Unreachable | ClocksApart) -> str:
    match found:
        case ClocksApart():
            return (
                f"the clocks of its members disagree: in {found.shared} outages that both saw, "
                f"that of {one_line(found.ahead)} was {duration_text(found.by_ms)} ahead of that "
                f"of {one_line(found.behind)}, so that one outage counts as several; set the "
                "clocks, and message.timestamp.type=LogAppendTime for the journal's topic"
            )
        case Unreachable(covered):
            less = int(covered * 1000) / 1000
            return f"no more than {less:g} of the outages are known to end; ask for less than that"
        case TooFew(ended, None, _):
            return (
                f"no number of outages ({ended} here) shows how long all last; ask for less than 1"
            )
        case TooFew(ended, needed, cover):
            enough = "" if cover is None else f"; that is enough for --cover {cover:g}"
            known = f"a proposal needs {needed} outages with a known end, and there are {ended}"
            return f"{known}{enough}; what any delays would cost is not known from so few"
