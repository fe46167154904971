"""Shows simulated outages on a terminal, and in a pipe."""

from collections.abc import Sequence

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
    if len(simulations) > 1:
        write_aligned(simulation_report.outages(simulations, has_jitter), _STYLES)
        typer.echo(simulation_report.verdict_of_all(simulations))
        return
    (one,) = simulations
    ending = (simulation_report.verdict(one), simulation_report.verdict_with_jitter(one))
    said = ending if has_jitter else ending[:1]
    _show(one, simulation_report.attempts(one), said)


def show_journeys(journeys: list[Journey]) -> None:
    """As `show_simulations`, of the first message."""
    if len(journeys) > 1:
        write_aligned(journey_report.outages(journeys), _STYLES)
        typer.echo("\n".join(journey_report.verdict_of_all(journeys)))
        return
    (one,) = journeys
    _show(one.message, journey_report.attempts(one), journey_report.verdict(one))


def _show(one: Simulation, attempts: list[tuple[str, ...]], said: Sequence[str]) -> None:
    """One outage; the attempts and the first sentence are about what is drawn."""
    typer.echo(f"outage of {duration_text(one.outage_ms)}")
    if is_terminal() and one.outage_ms:
        _draw(one)
    write_aligned(attempts, _STYLES)
    good = isinstance(one.ending, Recovered)
    typer.secho(said[0], fg="green" if good else "red", bold=True)
    for more in said[1:]:
        typer.echo(more)


def _draw(simulation: Simulation) -> None:
    from rich.console import Console

    from linear_retry.cli.strategy.timeline import timeline

    console = Console(highlight=False)
    if console.width >= _NARROWEST and not console.options.ascii_only:
        console.print(timeline(simulation, min(console.width, _WIDEST)))
