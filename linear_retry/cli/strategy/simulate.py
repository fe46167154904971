"""Simulates outages: `linear-retry strategy simulate`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from linear_retry.cli.options.connection import with_option_groups
from linear_retry.cli.options.values import length_ms, read_lengths
from linear_retry.cli.output.exit_codes import NEGATIVE, exit_on_error
from linear_retry.cli.output.rows import is_terminal, write_aligned, write_json
from linear_retry.cli.spark.options import RecordedOutages, require_pyspark
from linear_retry.cli.strategy import simulation_report
from linear_retry.cli.strategy.commands import FILE_HELP, load, print_heading, summary
from linear_retry.errors import ConfigurationError, StrategyError
from linear_retry.retry.decision import OnExhausted, Policy
from linear_retry.strategy.delays import duration_text
from linear_retry.strategy.simulation import Recovered, Simulation, Simulator
from linear_retry.strategy.strategy import Strategy

_NARROWEST, _WIDEST = 76, 120
_STYLES = {
    **dict.fromkeys(("fails", "fail", "dead-lettered", "stopped"), "red"),
    **dict.fromkeys(("succeeds", "recovered"), "green"),
}


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
        typer.Option(metavar="DIR", help="Use the outages in this lake's table `outages`."),
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
            raise typer.BadParameter(f"{_WITH_LAKE} are for recorded outages; give --lake DIR")
        _in_given(file, given, as_json)
    else:
        if given != GivenOutages():
            raise typer.BadParameter(
                f"{_WITHOUT_LAKE} are not for recorded outages; leave them out"
            )
        _in_recorded(file, lake, length_ms(probe_cost, "--probe-cost"), recorded, as_json)


_WITH_LAKE = "--group, --current, --seed, --master and --probe-cost"
_WITHOUT_LAKE = "--outage, --outages, --on-exhausted and --attempt"


def _in_given(file: Path, given: GivenOutages, as_json: bool) -> None:
    outages_ms = [length_ms(text, "--outage") for text in given.outage or []]
    attempt_ms = length_ms(given.attempt, "--attempt")
    loaded, problems = load(file), list[str]()
    if isinstance(loaded, StrategyError):
        problems += loaded.problems
    outages_ms += [] if given.outages is None else read_lengths(given.outages, problems)
    if isinstance(loaded, StrategyError) or problems:
        _refuse(file, problems, as_json)
    if not outages_ms:
        raise typer.BadParameter("no outage is given; write --outage 7m, or --outages FILE")
    simulator = _simulator(loaded, given.on_exhausted, attempt_ms)
    simulations = [simulator.through(outage_ms) for outage_ms in outages_ms]
    if as_json:
        asked = {"on_exhausted": given.on_exhausted, "attempt_s": attempt_ms / 1000}
        head = summary(file, loaded) | asked
        waits_out_ms = simulator.waits_out_ms
        write_json(head | simulation_report.as_json(each, waits_out_ms) for each in simulations)
    else:
        _print(simulations, loaded, attempt_ms)
        typer.echo(simulation_report.limit(simulator.waits_out_ms))


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


def _simulator(strategy: Strategy, on_exhausted: OnExhausted, attempt_ms: int) -> Simulator:
    try:
        return Simulator(Policy(strategy, on_exhausted), attempt_ms)
    except ConfigurationError as error:
        raise typer.BadParameter(str(error), param_hint="--on-exhausted") from error


def _print(simulations: list[Simulation], strategy: Strategy, attempt_ms: int) -> None:
    print_heading(strategy)
    if attempt_ms:
        typer.echo(f"an attempt takes {duration_text(attempt_ms)} to fail")
    if len(simulations) == 1:
        _print_one(simulations[0], strategy.jitter > 0)
    else:
        write_aligned(simulation_report.outages(simulations, strategy.jitter > 0), _STYLES)
        typer.echo(simulation_report.verdict_of_all(simulations))


def _print_one(simulation: Simulation, jitter: bool) -> None:
    typer.echo(f"outage of {duration_text(simulation.outage_ms)}")
    if is_terminal() and simulation.outage_ms:
        _draw(simulation)
    write_aligned(simulation_report.attempts(simulation), _STYLES)
    good = isinstance(simulation.ending, Recovered)
    typer.secho(simulation_report.verdict(simulation), fg="green" if good else "red", bold=True)
    if jitter:
        typer.echo(simulation_report.verdict_with_jitter(simulation))


def _draw(simulation: Simulation) -> None:
    from rich.console import Console

    from linear_retry.cli.strategy.timeline import timeline

    console = Console(highlight=False)
    if console.width >= _NARROWEST and not console.options.ascii_only:
        console.print(timeline(simulation, min(console.width, _WIDEST)))
