"""Tunes and simulates on recorded outages: `spark tune`, `strategy simulate --lake`."""

from collections.abc import Callable
from typing import Any, TypeVar

import typer

from linear_retry.cli.output.exit_codes import INSUFFICIENT_DATA, NEGATIVE, USAGE_ERROR, fail
from linear_retry.cli.output.printable import one_line
from linear_retry.cli.output.rows import write_json
from linear_retry.cli.spark import comparison
from linear_retry.cli.spark.options import RecordedOutages, StrategyFile
from linear_retry.cli.strategy.commands import load, print_heading
from linear_retry.errors import StrategyError
from linear_retry.files import printable_path
from linear_retry.spark import Lake, Simulated, Tuned, groups
from linear_retry.spark import simulate as simulate_in
from linear_retry.spark import tune as tune_in
from linear_retry.spark.session import session
from linear_retry.strategy.delays import duration_text
from linear_retry.strategy.strategy import Strategy
from linear_retry.tuning.proposal import TooFew
from linear_retry.tuning.solver import Conditions, Unreachable

_Found = TypeVar("_Found")


def tune(
    lake: str,
    probe_cost_ms: int,
    conditions: Conditions,
    recorded: RecordedOutages,
    target: StrategyFile,
    *,
    as_json: bool,
) -> None:
    """Proposes and compares, prints the result, and writes the strategy to `target`."""
    target.check()

    def tuned(where: Lake, **options: Any) -> list[Tuned]:
        if target.to is not None and recorded.group is None:
            _check_one(groups(where))
        return tune_in(where, probe_cost_ms / 1000, conditions, **options)

    found = _in_lake(lake, recorded, tuned)
    if as_json:
        write_json(map(comparison.tuned_json, found))
    else:
        _print(found, conditions)
    proposed = [each for each in found if isinstance(each.proposal, tuple)]
    if not proposed:
        raise typer.Exit(INSUFFICIENT_DATA)
    [*_, one] = proposed
    _write(target, one, probe_cost_ms, conditions, as_json)


def simulate(
    lake: str,
    strategy: Strategy,
    probe_cost_ms: int,
    recorded: RecordedOutages,
    as_json: dict[str, Any] | None,
) -> None:
    """Simulates and prints; `as_json` is the beginning of each JSON object."""

    def simulated(where: Lake, **options: Any) -> list[Simulated]:
        return simulate_in(where, strategy, probe_cost_ms / 1000, **options)

    found = _in_lake(lake, recorded, simulated)
    if not found:
        fail("no outage has a known duration", INSUFFICIENT_DATA)
    if as_json is not None:
        write_json(as_json | comparison.simulated_json(one) for one in found)
        return
    print_heading(strategy)
    for one in found:
        typer.echo(f"{one_line(one.group)}: {one.outages} outages, {one.ended} with a known end")
        comparison.show(one.comparison, "simulated", one.outages)


def _in_lake(
    lake: str, recorded: RecordedOutages, call: Callable[..., list[_Found]]
) -> list[_Found]:
    """Returns the result of `call`; ends the command if the strategy of --current is invalid."""
    current = None if recorded.current is None else load(recorded.current)
    if isinstance(current, StrategyError):
        fail("\n".join(current.problems), NEGATIVE)
    with session(recorded.master) as spark:
        return call(Lake(spark, lake), group=recorded.group, current=current, seed=recorded.seed)


def _check_one(names: list[str]) -> None:
    if len(names) > 1:
        there = ", ".join(map(repr, names))
        fail(f"--to is for one strategy; choose its group with --group: {there}", USAGE_ERROR)


def _write(
    target: StrategyFile, one: Tuned, probe_cost_ms: int, conditions: Conditions, as_json: bool
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


def _print(found: list[Tuned], conditions: Conditions) -> None:
    if not found:
        typer.echo("no outage has a known duration; nothing is proposed")
    for one in found:
        _print_tuned(one, conditions)


def _print_tuned(one: Tuned, conditions: Conditions) -> None:
    if not isinstance(one.proposal, tuple):
        why = _why_nothing(one.proposal)
        typer.echo(f"{one_line(one.group)}: nothing is proposed: {why}")
        return
    others = f"compared on the {one.outages - one.seen} after them"
    typer.echo(f"{one_line(one.group)}: made from {one.seen} outages, {others}")
    if one.comparison is None:
        typer.echo("they overlap, so they count as one outage: none is left to compare on")
        return
    comparison.show(one.comparison, "proposed", one.outages - one.seen)
    if one.comparison.proposed.covered.high < conditions.cover:
        typer.echo(f"{conditions.cover:g} are not covered: outages were longer than those before")


def _why_nothing(found: TooFew | Unreachable) -> str:
    match found:
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
            return known + enough
