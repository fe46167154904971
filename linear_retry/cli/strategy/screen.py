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
    _show({"consumer": one}, simulation_report.attempts(one), said)


def show_journeys(journeys: list[Journey]) -> None:
    """As `show_simulations`; of one, the first message and the line are drawn."""
    if len(journeys) > 1:
        write_aligned(journey_report.outages(journeys), _STYLES)
        typer.echo("\n".join(journey_report.verdict_of_all(journeys)))
        return
    (one,) = journeys
    drawn = {"first message": one.message, "line": one.line}
    _show(drawn, journey_report.attempts(one), journey_report.verdict(one))


def _show(
    drawn: dict[str, Simulation], attempts: list[tuple[str, ...]], said: Sequence[str]
) -> None:
    """One outage. The first that is drawn is what the attempts and the first sentence are about."""
    first = next(iter(drawn.values()))
    typer.echo(f"outage of {duration_text(first.outage_ms)}")
    if is_terminal() and first.outage_ms:
        _draw(drawn)
    write_aligned(attempts, _STYLES)
    good = isinstance(first.ending, Recovered)
    typer.secho(said[0], fg="green" if good else "red", bold=True)
    for more in said[1:]:
        typer.echo(more)


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
