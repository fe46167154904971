"""How does a strategy get through these outages?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, NoReturn, get_args

import typer

from linear_retry.cli import simulated
from linear_retry.cli.outages import length_ms, read
from linear_retry.cli.strategy import echo_head, echo_json, echo_table, load, summary
from linear_retry.decision import OnExhausted, Policy
from linear_retry.delays import shown
from linear_retry.errors import ConfigurationError, StrategyError
from linear_retry.simulation import Recovered, Simulation, Simulator
from linear_retry.strategy import Strategy

_NARROWEST, _WIDEST = 76, 120
_STYLES = {
    **dict.fromkeys(("fails", "fail", "dead-lettered", "stopped"), "red"),
    **dict.fromkeys(("succeeds", "recovered"), "green"),
}


def simulate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A strategy file.")],
    outage: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DURATION",
            help="How long the dependency is down: 7m, 1h30m, or 90 for seconds. May be repeated.",
        ),
    ] = None,
    outages: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="More of them: one on each line, # begins a comment."),
    ] = None,
    on_exhausted: Annotated[
        str,
        typer.Option(
            metavar="CHOICE", help="When the strategy has run out: dead-letter, repeat or stop."
        ),
    ] = "dead-letter",
    attempt: Annotated[
        str, typer.Option(metavar="DURATION", help="How long an attempt takes to fail.")
    ] = "0s",
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object per outage, each on a line.")
    ] = False,
) -> None:
    """Take a strategy through an outage: each attempt, and how late it is back.

    The outage begins with the first attempt. An attempt that starts before its end fails, the first
    that starts later succeeds. All is told without jitter; where the strategy has some, the bounds
    with it are added. Several outages make a table and a summary.

    Example: linear-retry strategy simulate strategies/short-outage.json --outage 7m

    Exit codes: 0, simulated, however it ends; 1, a file is not right (its problems are on stderr);
    2, wrong usage.
    """
    outages_ms = [length_ms(text, "--outage") for text in outage or []]
    attempt_ms, choice = length_ms(attempt, "--attempt"), _choice(on_exhausted)
    if not outages_ms and outages is None:
        raise typer.BadParameter("no outage is given; write --outage 7m, or --outages FILE")
    loaded, problems = load(file), list[str]()
    if isinstance(loaded, StrategyError):
        problems += loaded.problems
    outages_ms += [] if outages is None else read(outages, problems)
    if isinstance(loaded, StrategyError) or problems:
        _refuse(file, problems, as_json)
    simulator = _simulator(loaded, choice, attempt_ms)
    simulations = [simulator.through(outage_ms) for outage_ms in outages_ms]
    if as_json:
        told = {**summary(file, loaded), "on_exhausted": choice, "attempt_s": attempt_ms / 1000}
        for simulation in simulations:
            echo_json(told | simulated.as_json(simulation, simulator.waits_out_ms))
    else:
        _say(simulations, loaded, attempt_ms)
        typer.echo(simulated.limit(simulator.waits_out_ms))


def _choice(text: str) -> OnExhausted:
    choices: tuple[OnExhausted, ...] = get_args(OnExhausted)
    for choice in choices:
        if choice == text:
            return choice
    known = ", ".join(choices)
    raise typer.BadParameter(
        f"{shown(text)} is no choice; write one of {known}", param_hint="--on-exhausted"
    )


def _refuse(file: Path, problems: list[str], as_json: bool) -> NoReturn:
    if as_json:
        echo_json({**summary(file, StrategyError(problems)), "timeline": []})
    else:
        typer.echo("\n".join(problems), err=True)
    raise typer.Exit(1)


def _simulator(strategy: Strategy, on_exhausted: OnExhausted, attempt_ms: int) -> Simulator:
    try:
        return Simulator(Policy(strategy, on_exhausted), attempt_ms)
    except ConfigurationError as error:
        raise typer.BadParameter(str(error), param_hint="--on-exhausted") from error


def _say(simulations: list[Simulation], strategy: Strategy, attempt_ms: int) -> None:
    echo_head(strategy)
    if attempt_ms:
        typer.echo(f"an attempt takes {simulated.shown_ms(attempt_ms)} to fail")
    if len(simulations) == 1:
        _say_one(simulations[0], strategy.jitter > 0)
    else:
        echo_table(simulated.outages(simulations, strategy.jitter > 0), _STYLES)
        typer.echo(simulated.verdict_of_all(simulations))


def _say_one(simulation: Simulation, jitter: bool) -> None:
    typer.echo(f"outage of {simulated.shown_ms(simulation.outage_ms)}")
    if sys.stdout.isatty() and simulation.outage_ms:
        _draw(simulation)
    echo_table(simulated.attempts(simulation), _STYLES)
    good = isinstance(simulation.ending, Recovered)
    _echo(simulated.verdict(simulation), "bold green" if good else "bold red")
    if jitter:
        typer.echo(simulated.verdict_with_jitter(simulation))


def _draw(simulation: Simulation) -> None:
    from rich.console import Console

    from linear_retry.cli.timeline import timeline

    console = Console(highlight=False)
    if console.width >= _NARROWEST and not console.options.ascii_only:
        console.print(timeline(simulation, min(console.width, _WIDEST)))


def _echo(text: str, style: str) -> None:
    if not sys.stdout.isatty():
        typer.echo(text)
        return
    from rich.console import Console
    from rich.text import Text

    Console().print(Text(text, style))
