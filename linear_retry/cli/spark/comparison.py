"""Formats what strategies would have cost in recorded outages."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import typer

from linear_retry.cli.output.rows import write_aligned
from linear_retry.records.durations import duration_text
from linear_retry.spark import Simulated, Tuned
from linear_retry.strategy.tuning.gaps import Gap
from linear_retry.strategy.tuning.held_out import Comparison, Costs, Mean
from linear_retry.strategy.tuning.outages import ClocksApart
from linear_retry.strategy.tuning.proposal import TooFew
from linear_retry.strategy.tuning.solver import Unreachable

_UNSURE = 2
"""The factor between the bounds of a cost from which on it counts as not known."""
_EQUAL = 0.001
"""The least difference in coverage that is reported."""
_UNITS_MS = ((3_600_000, 60_000), (10_000, 1000), (1000, 100), (0, 1))
"""The shortest time for each rounding unit: minutes, seconds, tenths of a second."""


def show(found: Comparison, name: str, outages: int, *, is_confirmed: bool = True) -> None:
    """Prints the table and the remarks; `name` is that of the strategy beside the current one.

    What is not confirmed has no remarks: what it seems to save, it saves by giving up.
    """
    write_aligned(rows(found, name, outages))
    for line in remarks(found, name) if is_confirmed else ():
        typer.echo(line)


def rows(found: Comparison, name: str, outages: int) -> list[tuple[str, ...]]:
    """A header, and a row for each kind of cost, with its interval for each strategy."""
    named = {"current": found.current, name: found.proposed, "fixed interval": found.fixed}
    columns = {name: costs for name, costs in named.items() if costs is not None}
    each_one = columns.values()
    return [
        ("mean per outage", *columns),
        ("idle after it", *(time(each.idle_ms) for each in each_one)),
        ("attempts", *(count(each.probes) for each in each_one)),
        ("cost", *(time(each.total_ms) for each in each_one)),
        ("covered", *(share(each.covered) for each in each_one)),
        (f"given up of {outages}", *(given_up(each.covered, outages) for each in each_one)),
    ]


def remarks(found: Comparison, name: str) -> Iterator[str]:
    """Yields sentences about the difference, and its limits."""
    saved, current, both = found.saved, found.current, found.both
    if saved is None or current is None or both is None:
        yield "the journal has no delays of the current strategy; give it with --current FILE"
        return
    per = f"per outage, in the {_percent(both.mean)} % that both strategies cover"
    if saved.low > 0:
        yield f"saved: {time(saved)} {per}"
    elif saved.high < 0:
        yield f"lost: {time(Mean(-saved.mean, -saved.high, -saved.low))} {per}"
    else:
        yield f"saved: {time(saved)} {per}; the interval includes 0"
    more = found.proposed.covered.mean - current.covered.mean
    if abs(more) > _EQUAL:
        which = "current" if more > 0 else name
        yield f"the {which} strategy gives up on more of them, which costs it nothing here"


def unknown(gap: Gap) -> str:
    """A sentence on a gap between attempts, what it costs, and how to fill it."""
    between = f"{duration_text(gap.from_ms)} and {duration_text(gap.until_ms)}"
    first, second = map(_rough, gap.attempts_ms)
    return (
        f"{_percent(gap.share)} % of all outages ended between {between} after the first failure, "
        f"where no attempt was made: not knowing when costs up to {_rough(gap.cost_ms)} per "
        f"outage; attempts after {first} and {second}, by the current strategy, would tell more"
    )


def doubts(found: Comparison, outages: int) -> Iterator[str]:
    """Yields what so few outages do not show, and where a fixed interval did better in them."""
    cost_ms, fixed = found.proposed.total_ms, found.fixed
    if cost_ms.high > _UNSURE * cost_ms.low:
        yield (
            f"what an outage costs is hardly known from {outages}: between {_rough(cost_ms.low)} "
            f"and {_rough(cost_ms.high)}; compare again when there are more"
        )
    if fixed is not None and fixed.total_ms.mean < cost_ms.mean:
        yield "in these outages the fixed interval costs less than the proposed delays"


def time(of: Mean) -> str:
    """A mean time with its bounds."""
    return f"{_rough(of.mean)} ({_rough(of.low)} to {_rough(of.high)})"


def share(of: Mean) -> str:
    """A share in per cent with its bounds, rounded down: 99.96 is not all."""
    mean, low, high = map(_percent, (of.mean, of.low, of.high))
    return f"{mean} % ({low} to {high})"


def _percent(of: float) -> str:
    return f"{int(of * 1000) / 10:.1f}"


def given_up(covered: Mean, outages: int) -> str:
    """Returns how many outages outlast the strategy: each causes at least one dead letter."""
    return count(Mean(*(outages * (1 - of) for of in (covered.mean, covered.high, covered.low))))


def count(of: Mean) -> str:
    """A mean count with its bounds, with one decimal."""
    mean, low, high = (abs(round(each, 1)) for each in (of.mean, of.low, of.high))
    return f"{mean} ({low} to {high})"


def _rough(milliseconds: float) -> str:
    whole_ms, sign = abs(milliseconds), "-" if milliseconds < 0 else ""
    unit_ms = next(unit_ms for least_ms, unit_ms in _UNITS_MS if whole_ms >= least_ms)
    rounded_ms = round(whole_ms / unit_ms) * unit_ms
    return f"{sign if rounded_ms else ''}{duration_text(rounded_ms)}"


def tuned_json(one: Tuned) -> dict[str, Any]:
    """The object of `--json`, with times in seconds and None for what is missing."""
    found: dict[str, Any] = {"group": one.group, "outages": one.outages, "seen": one.seen}
    found |= {"verdict": one.verdict}
    match one.proposal:
        case TooFew() | ClocksApart():
            found |= asdict(one.proposal)
        case Unreachable(covered):
            found |= {"cover": covered}
        case delays_ms:
            found |= {"delays_s": _seconds(delays_ms)}
    found |= {"gap": None if one.gap is None else asdict(one.gap)}
    found |= {"learning_s": _seconds(one.learning_ms), "fixed_s": _seconds(one.fixed_ms)}
    fixed = None if one.comparison is None else one.comparison.fixed
    found |= {"fixed": None if fixed is None else _costs(fixed)}
    found |= {"current_s": _seconds(one.current_ms)} | _compared(one.comparison, "proposed")
    return found if one.is_confirmed else found | {"saved_s": None, "both": None}


def simulated_json(one: Simulated) -> dict[str, Any]:
    """Like `tuned_json`, for a simulation."""
    found = {"group": one.group, "outages": one.outages, "ended": one.ended}
    return found | {"current_s": _seconds(one.current_ms)} | _compared(one.comparison, "strategy")


def _compared(found: Comparison | None, name: str) -> dict[str, Any]:
    if found is None:
        return {"current": None, name: None, "saved_s": None, "both": None}
    saved_s = None if found.saved is None else _in_seconds(found.saved)
    both = None if found.both is None else asdict(found.both)
    current = None if found.current is None else _costs(found.current)
    return {"current": current, name: _costs(found.proposed), "saved_s": saved_s, "both": both}


def _costs(of: Costs) -> dict[str, Any]:
    return {
        "idle_s": _in_seconds(of.idle_ms),
        "attempts": asdict(of.probes),
        "cost_s": _in_seconds(of.total_ms),
        "covered": asdict(of.covered),
    }


def _in_seconds(of: Mean) -> dict[str, float]:
    return {name: round(value / 1000, 3) for name, value in asdict(of).items()}


def _seconds(delays_ms: tuple[int, ...] | None) -> list[float] | None:
    return None if delays_ms is None else [delay_ms / 1000 for delay_ms in delays_ms]
