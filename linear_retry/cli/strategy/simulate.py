"""Simulates outages, for people and for programs: `linear-retry strategy simulate`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any, NoReturn, assert_never

import typer

from linear_retry.cli.options.connection import with_option_groups
from linear_retry.cli.options.values import (
    FILE_HELP,
    RULE,
    length_ms,
    load_one,
    print_heading,
    read_lengths,
    refused,
)
from linear_retry.cli.output.exit_codes import NEGATIVE, exit_on_error
from linear_retry.cli.output.rows import write_aligned, write_json
from linear_retry.cli.spark.options import RecordedOutages, require_pyspark
from linear_retry.cli.strategy.commands import range_text, summary
from linear_retry.errors import StrategyError
from linear_retry.records.durations import duration_text
from linear_retry.retry.decision import OnExhausted, Policy
from linear_retry.strategy.schedule import Failures
from linear_retry.strategy.simulation import GivenUp, Recovered, Simulation, Simulator, Spread

_STYLES = {
    **dict.fromkeys(("fails", "fail", "dead-lettered", "blocked", "stopped"), "red"),
    **dict.fromkeys(("succeeds", "recovered"), "green"),
}
_LISTED = 3
"""Up to this many attempts with the same wait are listed one by one; more become one row."""
_ATTEMPTS: tuple[str, ...] = ("attempt", "starts at", "result", "then waits")
_OUTAGES: tuple[str, ...] = ("outage", "attempts", "ends", "at", "idle", "with jitter", "too early")


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
            help="What to do when the delays run out: dead-letter, repeat, block or stop.",
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
    rule: RULE = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object per outage, each on a line.")
    ] = False,
) -> None:
    """Simulate an outage: each attempt, and the idle time.

    The outage begins with the first attempt. An attempt that starts before its end fails; the first
    one after it succeeds. Without jitter; if the strategy has some, the bounds with it are added.
    Several outages make a table and a summary.

    With --lake: what the strategy would have cost in all outages that Spark has found, by group,
    beside the strategy that was used (docs/spark/tuning.md); of a --rule, in those whose error it
    takes. --group to --master, and --probe-cost,
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
        _in_given(file, rule, given, as_json)
    else:
        if given != GivenOutages():
            raise typer.BadParameter(
                "--outage to --attempt are not for recorded outages; leave them out"
            )
        _in_recorded(file, rule, lake, length_ms(probe_cost, "--probe-cost"), recorded, as_json)


def _in_given(file: Path, rule: int | None, given: GivenOutages, as_json: bool) -> None:
    outages_ms = [length_ms(text, "--outage") for text in given.outage or []]
    attempt_ms = length_ms(given.attempt, "--attempt")
    loaded = load_one(file, rule)
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
        write_json(head | simulation_json(each, waits_out_ms) for each in simulations)
        return
    print_heading(loaded)
    if attempt_ms:
        typer.echo(f"an attempt takes {duration_text(attempt_ms)} to fail")
    _show(simulations, has_jitter=loaded.jitter > 0)
    typer.echo(limit(simulator.waits_out_ms))


def _show(simulations: list[Simulation], *, has_jitter: bool) -> None:
    """Each attempt of one; of several a row for each, and a summary."""
    if len(simulations) > 1:
        write_aligned(outages(simulations, has_jitter), _STYLES)
        typer.echo(verdict_of_all(simulations))
        return
    (one,) = simulations
    typer.echo(f"outage of {duration_text(one.outage_ms)}")
    write_aligned(attempts(one), _STYLES)
    good = isinstance(one.ending, Recovered)
    typer.secho(verdict(one), fg="green" if good else "red", bold=True)
    if has_jitter:
        typer.echo(verdict_with_jitter(one))


def _in_recorded(
    file: Path,
    rule: int | None,
    lake: str,
    probe_cost_ms: int,
    recorded: RecordedOutages,
    as_json: bool,
) -> None:
    loaded = load_one(file, rule)
    if isinstance(loaded, StrategyError):
        _refuse(file, list(loaded.problems), as_json)
    with exit_on_error(), require_pyspark():
        from linear_retry.cli.spark.tune import simulate as run

        head = summary(file, loaded) if as_json else None
        run(lake, loaded, None if rule is None else (file, rule), probe_cost_ms, recorded, head)


def _refuse(file: Path, problems: list[str], as_json: bool) -> NoReturn:
    if as_json:
        write_json([{**summary(file, StrategyError(problems)), "timeline": []}])
    else:
        typer.echo("\n".join(problems), err=True)
    raise typer.Exit(NEGATIVE)


def attempts(simulation: Simulation) -> list[tuple[str, ...]]:
    """Returns a header, and a row for each attempt, or for many with the same wait."""
    rows = [_ATTEMPTS]
    for failures in simulation.failures:
        rows += _each(failures) if failures.times <= _LISTED else [_grouped(failures)]
    ending = simulation.ending
    if isinstance(ending, Recovered):
        rows.append((str(ending.attempt), duration_text(ending.at_ms), "succeeds", ""))
    return rows


def outages(simulations: Sequence[Simulation], jitter: bool) -> list[tuple[str, ...]]:
    """Returns a header, and a row for each; idle times with jitter only if there is some."""
    rows = [_OUTAGES, *map(_outage, simulations)]
    return rows if jitter else [(*row[:-2], row[-1]) for row in rows]


def verdict(simulation: Simulation) -> str:
    """Says how the simulation ends."""
    match simulation.ending:
        case Recovered(attempt, at_ms, idle_ms):
            late = f"back {duration_text(idle_ms)} after the outage"
            return f"{late}: attempt {attempt} succeeds at {duration_text(at_ms)}"
        case GivenUp(attempt, at_ms, too_early_ms, outcome):
            last = f"attempt {attempt}, the last one, came {duration_text(too_early_ms)} too early"
            return f"{outcome} at {duration_text(at_ms)}: {last}"
        case _:
            assert_never(simulation.ending)


def verdict_with_jitter(simulation: Simulation) -> str:
    """Says how it may end, over all random draws."""
    spread = simulation.spread
    if spread is None:
        return "with jitter: the same, whatever the random draws"
    late = f"with jitter: back {_bounds(spread)} after the outage"
    return f"{late}, or given up too" if spread.may_give_up else late


def limit(waits_out_ms: int | None) -> str:
    """Says which outages the strategy waits out."""
    match waits_out_ms:
        case None:
            return "outages of any length are waited out"
        case 0:
            return "no outage is waited out"
        case _:
            return f"outages of up to {duration_text(waits_out_ms)} are waited out"


def verdict_of_all(simulations: Sequence[Simulation]) -> str:
    """Summarises several outages. Idle times are only of those that are waited out."""
    endings = [simulation.ending for simulation in simulations]
    idle_ms = [ending.idle_ms for ending in endings if isinstance(ending, Recovered)]
    gave_up = [ending.outcome for ending in endings if isinstance(ending, GivenUp)]
    parts = [f"{len(gave_up)} {gave_up[0]}" if gave_up else "all waited out"]
    if idle_ms:
        middle, worst = duration_text(round(median(idle_ms))), duration_text(max(idle_ms))
        parts.append(f"idle afterwards {middle} (median), {worst} (worst)")
    parts.append(f"{sum(ending.attempt for ending in endings)} attempts in all")
    return f"{len(endings)} outages: {'; '.join(parts)}"


def simulation_json(simulation: Simulation, waits_out_ms: int | None) -> dict[str, Any]:
    """Returns it as JSON: times in seconds, None if not applicable."""
    ending, spread = simulation.ending, simulation.spread
    if isinstance(ending, Recovered):
        outcome, idle_ms, too_early_ms = "recovered", ending.idle_ms, None
    else:
        outcome, idle_ms, too_early_ms = ending.outcome, None, ending.too_early_ms
    return {
        "outage_s": _s(simulation.outage_ms),
        "outcome": outcome,
        "attempts": ending.attempt,
        "ended_s": _s(ending.at_ms),
        "idle_s": _s(idle_ms),
        "too_early_s": _s(too_early_ms),
        "idle_min_s": _s(spread.idle_min_ms) if spread else None,
        "idle_max_s": _s(spread.idle_max_ms) if spread else None,
        "may_give_up": spread is None or spread.may_give_up,
        "waits_out_s": _s(waits_out_ms),
        "timeline": list(_timeline(simulation)),
    }


def _timeline(simulation: Simulation) -> Iterator[dict[str, Any]]:
    for failures in simulation.failures:
        yield {
            "attempt": failures.attempt,
            "times": failures.times,
            "at_s": _s(failures.at_ms),
            "every_s": _s(failures.every_ms if failures.times > 1 else None),
            "wait_s": _s(failures.wait_ms),
            "succeeds": False,
        }
    if isinstance(simulation.ending, Recovered):
        attempt, at_s = simulation.ending.attempt, _s(simulation.ending.at_ms)
        one = {"times": 1, "at_s": at_s, "every_s": None, "wait_s": None}
        yield {"attempt": attempt, **one, "succeeds": True}


def _s(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _each(failures: Failures) -> Iterator[tuple[str, ...]]:
    wait = "" if failures.wait_ms is None else duration_text(failures.wait_ms)
    for index in range(failures.times):
        at_ms = failures.at_ms + index * failures.every_ms
        yield str(failures.attempt + index), duration_text(at_ms), "fails", wait


def _grouped(failures: Failures) -> tuple[str, ...]:
    numbers = f"{failures.attempt} to {failures.attempt + failures.times - 1}"
    moments = f"{duration_text(failures.at_ms)} to {duration_text(failures.last_at_ms)}"
    return numbers, moments, "fail", f"{duration_text(failures.wait_ms or 0)} each"


def _outage(simulation: Simulation) -> tuple[str, ...]:
    ending, spread = simulation.ending, simulation.spread
    how = (duration_text(simulation.outage_ms), str(ending.attempt))
    jitter = _bounds(spread) if spread else "never"
    if spread and spread.may_give_up:
        jitter += " or never"
    at = duration_text(ending.at_ms)
    if isinstance(ending, Recovered):
        return *how, "recovered", at, duration_text(ending.idle_ms), jitter, ""
    return *how, ending.outcome, at, "", jitter, duration_text(ending.too_early_ms)


def _bounds(spread: Spread) -> str:
    return range_text(spread.idle_min_ms / 1000, spread.idle_max_ms / 1000)
