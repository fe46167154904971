"""Shows simulated outages on a terminal, and in a pipe."""

import typer

from linear_retry.cli.output.rows import is_terminal, write_aligned
from linear_retry.cli.strategy import journey_report, simulation_report
from linear_retry.cli.strategy.commands import print_heading
from linear_retry.strategy.delays import duration_text
from linear_retry.strategy.retry_topics import Journey
from linear_retry.strategy.simulation import Recovered, Simulation
from linear_retry.strategy.strategy import Strategy

_NARROWEST, _WIDEST = 76, 120
_STYLES = {
    **dict.fromkeys(("fails", "fail", "dead-lettered", "stopped"), "red"),
    **dict.fromkeys(("succeeds", "recovered"), "green"),
}


def show_strategy(strategy: Strategy, attempt_ms: int) -> None:
    """Its heading, and how long an attempt takes."""
    print_heading(strategy)
    if attempt_ms:
        typer.echo(f"an attempt takes {duration_text(attempt_ms)} to fail")


def show_simulations(simulations: list[Simulation], *, has_jitter: bool) -> None:
    """Each attempt of one, drawn on a terminal; of several a row for each, and a summary."""
    if len(simulations) == 1:
        _show_one(simulations[0], has_jitter)
        return
    write_aligned(simulation_report.outages(simulations, has_jitter), _STYLES)
    typer.echo(simulation_report.verdict_of_all(simulations))


def show_journeys(journeys: list[Journey]) -> None:
    """As `show_simulations`; of one, the first message and the line are drawn."""
    if len(journeys) > 1:
        write_aligned(journey_report.outages(journeys), _STYLES)
        typer.echo("\n".join(journey_report.verdict_of_all(journeys)))
        return
    (journey,) = journeys
    typer.echo(f"outage of {duration_text(journey.message.outage_ms)}")
    if is_terminal() and journey.message.outage_ms:
        _draw({"first message": journey.message, "line": journey.line})
    write_aligned(journey_report.attempts(journey), _STYLES)
    first, behind = journey_report.verdict(journey)
    good = isinstance(journey.message.ending, Recovered)
    typer.secho(first, fg="green" if good else "red", bold=True)
    typer.echo(behind)


def _show_one(simulation: Simulation, has_jitter: bool) -> None:
    typer.echo(f"outage of {duration_text(simulation.outage_ms)}")
    if is_terminal() and simulation.outage_ms:
        _draw({"consumer": simulation})
    write_aligned(simulation_report.attempts(simulation), _STYLES)
    good = isinstance(simulation.ending, Recovered)
    typer.secho(simulation_report.verdict(simulation), fg="green" if good else "red", bold=True)
    if has_jitter:
        typer.echo(simulation_report.verdict_with_jitter(simulation))


def _draw(simulations: dict[str, Simulation]) -> None:
    """One below the other, each with its name, all to one scale and with one legend."""
    from rich.console import Console

    from linear_retry.cli.strategy.timeline import timeline

    console = Console(highlight=False)
    if console.width < _NARROWEST or console.options.ascii_only:
        return
    width = min(console.width, _WIDEST)
    end_ms = max(simulation.ending.at_ms for simulation in simulations.values())
    for name, simulation in simulations.items():
        *drawing, legend = timeline(simulation, width, end_ms, f"{name} back").split("\n")
        console.print(*drawing, sep="\n")
    console.print(legend)
