"""Proposes delays for recorded outages, if there are enough of them to do so."""

from dataclasses import dataclass, replace
from math import ceil, log

import numpy as np

from linear_retry.tuning.durations import estimate
from linear_retry.tuning.outages import Outages
from linear_retry.tuning.solver import Conditions, Unreachable, solve

__all__ = ["TooFew", "propose"]

CONFIDENCE = 0.95


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
    they outlast as many of all outages like these.
    """
    needed = outages_needed(conditions.cover)
    if needed is None or outages.ended < needed:
        return TooFew(outages.ended, needed, cover_known(outages.ended))
    known = estimate(outages)
    aim = min(cover_aimed_at(len(outages), conditions.cover), float(known.ended[-1]))
    durations = known.durations(rounded_to_ms=conditions.shortest_ms)
    return solve(durations, probe_cost_ms, replace(conditions, cover=max(aim, conditions.cover)))


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
