"""Proposes delays for recorded outages, if there are enough of them to do so."""

from dataclasses import dataclass
from math import ceil, log

from linear_retry.tuning.durations import estimate
from linear_retry.tuning.outages import Outages
from linear_retry.tuning.solver import Conditions, Unreachable, solve

__all__ = ["TooFew", "propose"]

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class TooFew:
    """Only `ended` outages have a known end, and `needed` would have to; None: no number suffices.

    `cover` is the share that so few are enough for; None if no share is low enough.
    """

    ended: int
    needed: int | None
    cover: float | None


def propose(
    outages: Outages, probe_cost_ms: float, conditions: Conditions
) -> tuple[int, ...] | TooFew | Unreachable:
    """Proposes the cheapest delays in ms for outages like these, or says why it cannot."""
    needed = outages_needed(conditions.cover)
    if needed is None or outages.ended < needed:
        return TooFew(outages.ended, needed, cover_known(outages.ended))
    durations = estimate(outages).durations(rounded_to_ms=conditions.shortest_ms)
    return solve(durations, probe_cost_ms, conditions)


def outages_needed(cover: float) -> int | None:
    """How many outages with a known end say how long the share `cover` of all of them lasts.

    So many that with a probability of 95 per cent one of them at least lasts longer: what is asked
    for is then within what has been seen. All n end sooner with probability cover ** n, which is
    the "rule of three": 3 / (1 - cover) outages, near enough. 0.999 needs 2995, 0.99 needs 299.
    S. S. Wilks, Determination of Sample Sizes for Setting Tolerance Limits, Ann. Math. Statist. 12
    (1941), 91-96. None: no number of outages says how long all of them last.
    """
    return ceil(log(1 - CONFIDENCE) / log(cover)) if cover < 1 else None


def cover_known(ended: int) -> float | None:
    """The largest share, rounded down to a thousandth, for which so many outages are enough."""
    found = int((1 - CONFIDENCE) ** (1 / ended) * 1000) / 1000 if ended else 0.0
    return found or None
