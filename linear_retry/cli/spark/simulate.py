"""Simulates a strategy in recorded outages: `strategy simulate --lake`."""

from __future__ import annotations

from typing import Any

import typer

from linear_retry.cli.output.exit_codes import INSUFFICIENT_DATA, fail
from linear_retry.cli.output.printable import one_line
from linear_retry.cli.output.rows import write_aligned, write_json
from linear_retry.cli.spark import comparison
from linear_retry.cli.spark.options import RecordedOutages
from linear_retry.cli.spark.tune import load
from linear_retry.cli.strategy.commands import print_heading
from linear_retry.spark import Lake, Simulated
from linear_retry.spark import simulate as run
from linear_retry.spark.session import session
from linear_retry.strategy.strategy import Strategy

_HEAD = ("group", "outages", "idle after one", "attempts", "covered", "given up", "saved an outage")


def simulate(
    lake: str,
    strategy: Strategy,
    probe_cost_ms: int,
    recorded: RecordedOutages,
    as_json: dict[str, Any] | None,
) -> None:
    """Simulates and prints; `as_json` is the beginning of each JSON object."""
    current = None if recorded.current is None else load(recorded.current)
    with session(recorded.master) as spark:
        found = run(
            Lake(spark, lake),
            strategy,
            probe_cost_ms / 1000,
            group=recorded.group,
            current=current,
            seed=recorded.seed,
        )
    if not found:
        fail("of no outage anything is known", INSUFFICIENT_DATA)
    if as_json is not None:
        write_json(as_json | comparison.simulated_json(one) for one in found)
        return
    print_heading(strategy)
    if len(found) > 1:
        write_aligned([_HEAD, *map(_row, found)])
    else:
        _print_one(found[0], strategy)


def _print_one(one: Simulated, strategy: Strategy) -> None:
    typer.echo(f"{one_line(one.group)}: {one.outages} outages, {one.ended} with a known end")
    strategies = one.current_ms, strategy.delays_ms
    comparison.show(one.comparison, "simulated", strategies, one.outages)


def _row(one: Simulated) -> tuple[str, ...]:
    found = one.comparison.proposed
    return (
        one_line(one.group),
        str(one.outages),
        comparison.time(found.idle_ms),
        comparison.count(found.probes),
        comparison.share(found.covered),
        comparison.given_up(found.covered, one.outages),
        comparison.saved(one.comparison),
    )
