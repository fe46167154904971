"""Formats simulated outages for people and programs."""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any, assert_never

from linear_retry.cli.strategy.commands import range_text
from linear_retry.records.durations import duration_text
from linear_retry.strategy.schedule import Failures
from linear_retry.strategy.simulation import GivenUp, Recovered, Simulation, Spread

_LISTED = 3
"""Up to this many attempts with the same wait are listed one by one; more become one row."""

_ATTEMPTS: tuple[str, ...] = ("attempt", "starts at", "result", "then waits")
_OUTAGES: tuple[str, ...] = ("outage", "attempts", "ends", "at", "idle", "with jitter", "too early")


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


def as_json(simulation: Simulation, waits_out_ms: int | None) -> dict[str, Any]:
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
