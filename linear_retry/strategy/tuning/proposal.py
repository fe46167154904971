"""Proposes delays for recorded outages, if there are enough of them to do so."""

from dataclasses import dataclass, replace
from math import ceil, log

import numpy as np

from linear_retry.strategy.tuning.durations import estimate
from linear_retry.strategy.tuning.fixed import cheapest_fixed, mean_cost_ms
from linear_retry.strategy.tuning.outages import Outages
from linear_retry.strategy.tuning.solver import Conditions, OutageDurations, Unreachable, solve

__all__ = ["TooFew", "propose", "propose_fixed"]

CONFIDENCE = 0.95
_HARDLY = 5
"""By as many per cent, for a hundred outages, delays may seem cheaper by following each bump of the
recorded ones; less for more outages. With this, of 1 to 10, proposals from 100 to 1,000 outages
cost least in outages to come, and a third as often more than the fixed interval."""


@dataclass(frozen=True, slots=True)
class TooFew:
    """Only `ended` outages have a known end; `needed` is how many must. None: no number suffices.

    `cover` is the share for which these are enough; None if no share is low enough.
    """

    ended: int
    needed: int | None
    cover: float | None


def propose(
    outages: Outages, probe_cost_ms: float, conditions: Conditions
) -> tuple[int, ...] | TooFew | Unreachable:
    """Proposes the cheapest delays in ms for outages like these, or says why it cannot.

    They outlast more of these outages than `conditions.cover`, so that with a confidence of 95%
    they outlast as many of all outages like these. A fixed interval that costs hardly more in these
    outages is proposed in their place: so small an advantage is one in these alone.
    """
    needed = outages_needed(conditions.cover)
    if needed is None or outages.ended < needed:
        return TooFew(outages.ended, needed, cover_known(outages.ended))
    durations, aimed = _aimed(outages, conditions)
    cheapest = solve(durations, probe_cost_ms, aimed)
    fixed = cheapest_fixed(durations, probe_cost_ms, aimed)
    if isinstance(cheapest, Unreachable) or fixed is None:
        return cheapest
    bound_ms = (1 + _HARDLY / len(outages)) * mean_cost_ms(cheapest, durations, probe_cost_ms)
    return fixed if mean_cost_ms(fixed, durations, probe_cost_ms) <= bound_ms else cheapest


def propose_fixed(
    outages: Outages, probe_cost_ms: float, conditions: Conditions
) -> tuple[int, ...] | None:
    """Proposes the cheapest equal delays, for as many outages as `propose` covers.

    None if no equal delays meet the conditions. There must be outages with a known end.
    """
    durations, aimed = _aimed(outages, conditions)
    return cheapest_fixed(durations, probe_cost_ms, aimed)


def _aimed(outages: Outages, conditions: Conditions) -> tuple[OutageDurations, Conditions]:
    """Returns the estimated durations, and the conditions with the share of these to outlast."""
    known = estimate(outages)
    aim = min(cover_aimed_at(len(outages), conditions.cover), float(known.ended[-1]))
    durations = known.durations(rounded_to_ms=conditions.shortest_ms)
    return durations, replace(conditions, cover=max(aim, conditions.cover))


def cover_aimed_at(count: int, cover: float) -> float:
    """Returns the share of `count` outages to outlast, to outlast `cover` of all outages.

    With a confidence of 95%: the upper tolerance limit of S. S. Wilks, as in `outages_needed`.
    Aiming at `cover` itself would miss it in every other case.
    """
    longer = np.arange(count)
    odds = np.log((count - longer) / (longer + 1) * (1 - cover) / cover)
    chances = np.exp(count * log(cover) + np.append(0, np.cumsum(odds)))  # of so many longer ones
    # The most of them that would be as many or fewer in one case of twenty only.
    most = int(np.searchsorted(np.cumsum(chances), 1 - CONFIDENCE, side="right")) - 1
    return (count - max(most, 0)) / count


def outages_needed(cover: float) -> int | None:
    """Returns how many outages with a known end are needed for a share of `cover`.

    Enough that with a probability of 95% at least one of them lasts longer than that share of all:
    the requested quantile is then within the observed range. All n are shorter with probability
    cover ** n, which gives the "rule of three": about 3 / (1 - cover) outages. 0.999 needs 2995,
    0.99 needs 299. S. S. Wilks, Determination of Sample Sizes for Setting Tolerance Limits, Ann.
    Math. Statist. 12 (1941), 91-96. None: no number of outages is enough for a share of 1.
    """
    return ceil(log(1 - CONFIDENCE) / log(cover)) if cover < 1 else None


def cover_known(ended: int) -> float | None:
    """Returns the largest share, rounded down to 0.001, for which this many outages are enough."""
    found = int((1 - CONFIDENCE) ** (1 / ended) * 1000) / 1000 if ended else 0.0
    return found or None
