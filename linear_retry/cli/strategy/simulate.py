"""Simulates outages: `linear-retry strategy simulate`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from linear_retry.cli.options.connection import with_option_groups
from linear_retry.cli.options.values import (
    FILE_HELP,
    length_ms,
    load,
    print_heading,
    read_lengths,
    refused,
)
from linear_retry.cli.output.exit_codes import NEGATIVE, exit_on_error
from linear_retry.cli.output.rows import write_aligned, write_json
from linear_retry.cli.spark.options import RecordedOutages, require_pyspark
from linear_retry.cli.strategy import simulation_report
from linear_retry.cli.strategy.commands import summary
from linear_retry.errors import StrategyError
from linear_retry.records.durations import duration_text
from linear_retry.retry.decision import OnExhausted, Policy
from linear_retry.strategy.simulation import Recovered, Simulation, Simulator


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenOutages:
    """The outages that the user names, and what happens in one."""

    outage: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DURATION",
            help="How long the dependency is down: 7m, 1h30m, or 90 for seconds. May be repeated.",
        ),
    ] = None
    outages: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A file with one such duration on each line; # begins a comment."
        ),
    ] = None
    on_exhausted: Annotated[
        OnExhausted,
        typer.Option(
            metavar="CHOICE",
            help="What to do when the delays run out: dead-letter, repeat or stop.",
        ),
    ] = "dead-letter"
    attempt: Annotated[
        str, typer.Option(metavar="DURATION", help="How long an attempt takes to fail.")
    ] = "0s"


@with_option_groups
def simulate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help=FILE_HELP)],
    given: GivenOutages,
    recorded: RecordedOutages,
    lake: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Use the outages in this lake's table `episodes`."),
    ] = None,
    probe_cost: Annotated[
        str,
        typer.Option(metavar="TIME", help="With --lake: what an attempt costs, as time waited."),
    ] = "0s",
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object per outage, each on a line.")
    ] = False,
) -> None:
    """Simulate an outage: each attempt, and the idle time.

    The outage begins with the first attempt. An attempt that starts before its end fails; the first
    one after it succeeds. Without jitter; if the strategy has some, the bounds with it are added.
    Several outages make a table and a summary.

    With --lake: what the strategy would have cost in all outages that Spark has found, by group,
    beside the strategy that was used (docs/spark/tuning.md). --group to --master, and --probe-cost,
    need --lake; --outage to --attempt exclude it.

    Example: linear-retry strategy simulate short-outage --outage 7m

    Exit codes: 0, simulated, whatever the outcome; 1, a file is invalid (its problems are on
    stderr). With --lake also 5, no outage has a known duration.
    """
    if lake is None:
        if recorded != RecordedOutages() or probe_cost != "0s":
            raise typer.BadParameter(
                "--group, --current, --seed, --master and --probe-cost are for recorded outages; "
                "give --lake DIR"
            )
        _in_given(file, given, as_json)
    else:
        if given != GivenOutages():
            raise typer.BadParameter(
                "--outage to --attempt are not for recorded outages; leave them out"
            )
        _in_recorded(file, lake, length_ms(probe_cost, "--probe-cost"), recorded, as_json)


def _in_given(file: Path, given: GivenOutages, as_json: bool) -> None:
    outages_ms = [length_ms(text, "--outage") for text in given.outage or []]
    attempt_ms = length_ms(given.attempt, "--attempt")
    loaded = load(file)
    problems = [*loaded.problems] if isinstance(loaded, StrategyError) else []
    outages_ms += [] if given.outages is None else read_lengths(given.outages, problems)
    if isinstance(loaded, StrategyError) or problems:
        _refuse(file, problems, as_json)
    if not outages_ms:
        raise typer.BadParameter("no outage is given; write --outage 7m, or --outages FILE")
    with refused("--on-exhausted"):
        simulator = Simulator(Policy(loaded, given.on_exhausted), attempt_ms)
    simulations = [simulator.through(outage_ms) for outage_ms in outages_ms]
    if as_json:
        head = summary(file, loaded)
        head |= {"on_exhausted": given.on_exhausted, "attempt_s": attempt_ms / 1000}
        waits_out_ms = simulator.waits_out_ms
        write_json(head | simulation_report.as_json(each, waits_out_ms) for each in simulations)
        return
    print_heading(loaded)
    if attempt_ms:
        typer.echo(f"an attempt takes {duration_text(attempt_ms)} to fail")
    _show(simulations, has_jitter=loaded.jitter > 0)
    typer.echo(simulation_report.limit(simulator.waits_out_ms))


def _show(simulations: list[Simulation], *, has_jitter: bool) -> None:
    """Each attempt of one; of several a row for each, and a summary."""
    if len(simulations) > 1:
        write_aligned(simulation_report.outages(simulations, has_jitter), _STYLES)
        typer.echo(simulation_report.verdict_of_all(simulations))
        return
    (one,) = simulations
    typer.echo(f"outage of {duration_text(one.outage_ms)}")
    write_aligned(simulation_report.attempts(one), _STYLES)
    good = isinstance(one.ending, Recovered)
    typer.secho(simulation_report.verdict(one), fg="green" if good else "red", bold=True)
    if has_jitter:
        typer.echo(simulation_report.verdict_with_jitter(one))


_STYLES = {
    **dict.fromkeys(("fails", "fail", "dead-lettered", "stopped"), "red"),
    **dict.fromkeys(("succeeds", "recovered"), "green"),
}


def _in_recorded(
    file: Path, lake: str, probe_cost_ms: int, recorded: RecordedOutages, as_json: bool
) -> None:
    loaded = load(file)
    if isinstance(loaded, StrategyError):
        _refuse(file, list(loaded.problems), as_json)
    with exit_on_error(), require_pyspark():
        from linear_retry.cli.spark.tune import simulate as run

        head = summary(file, loaded) if as_json else None
        run(lake, loaded, probe_cost_ms, recorded, head)


def _refuse(file: Path, problems: list[str], as_json: bool) -> NoReturn:
    if as_json:
        write_json([{**summary(file, StrategyError(problems)), "timeline": []}])
    else:
        typer.echo("\n".join(problems), err=True)
    raise typer.Exit(NEGATIVE)
