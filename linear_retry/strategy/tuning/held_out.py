"""Compares what two strategies would have cost in recorded outages, with confidence intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from linear_retry.strategy.tuning.durations import Estimate, estimate
from linear_retry.strategy.tuning.outages import Numbers, Outages

__all__ = ["Comparison", "compare"]

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean, and its bounds with a confidence of 95%."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Costs:
    """The mean costs of an outage under one strategy.

    `idle_ms` is the time from its end to the first attempt after it; `covered` the share of outages
    that end before the strategy does; `total_ms` is `idle_ms` plus the price of the `probes`.
    """

    idle_ms: Mean
    probes: Mean
    covered: Mean
    total_ms: Mean


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two strategies in the same outages, and how much less the proposed one costs, in ms.

    Giving up is free, so `saved` counts only outages that both strategies cover, `both` of all; it
    is a mean over all outages, to which the others add nothing. `current`, `saved` and `both` are
    None without a current strategy; `fixed` has the costs of a fixed interval, if one is compared.
    """

    current: Costs | None
    proposed: Costs
    saved: Mean | None
    both: Mean | None
    fixed: Costs | None = None

    def confirms(self, cover: float) -> bool:
        """Whether the proposed strategy covered that share of these outages."""
        return self.proposed.covered.mean >= cover - _ROUNDING


def compare(
    current_ms: Sequence[int] | None,
    proposed_ms: Sequence[int],
    outages: Outages,
    probe_cost_ms: float,
    *,
    rng: np.random.Generator,
    resamples: int = 1000,
    fixed_ms: Sequence[int] | None = None,
) -> Comparison:
    """Compares arrays of delays on outages that the proposed one was not made from.

    Outages are resampled `resamples` times. All strategies get the same draws, so `saved` is more
    precise than either by itself.
    """
    known = estimate(outages)

    def costs(delays_ms: Sequence[int], until_ms: float = np.inf) -> Numbers:
        found = outage_costs(delays_ms, outages, known, until_ms=until_ms)
        return np.column_stack([found, found[:, 0] + probe_cost_ms * found[:, 1]])

    columns = [costs(proposed_ms)]
    if fixed_ms is not None:
        columns.append(costs(fixed_ms))
    if current_ms is not None:
        until_ms = min(sum(current_ms), sum(proposed_ms))
        now, then = costs(current_ms, until_ms), costs(proposed_ms, until_ms)
        columns += [costs(current_ms), now[:, 3:] - then[:, 3:], now[:, 2:3]]
    found = iter(means(np.hstack(columns), rng, resamples))

    def next_costs() -> Costs:
        return Costs(*islice(found, 4))

    proposed = next_costs()
    fixed = None if fixed_ms is None else next_costs()
    if current_ms is None:
        return Comparison(None, proposed, None, None, fixed)
    return Comparison(next_costs(), proposed, next(found), next(found), fixed)


def outage_costs(
    delays_ms: Sequence[int], outages: Outages, known: Estimate, *, until_ms: float = np.inf
) -> Numbers:
    """Returns the idle time in ms, the probes, and the chance to be covered, of each row.

    All are means over its possible ends: distributed like all outages (`known`), within its own
    bounds. Ends after `until_ms` count as 0. The part that may last longer than any outage with a
    known end counts as not covered.
    """
    moments_ms = np.cumsum(np.array(delays_ms, np.float64))
    last_ms = known.edges_ms[-1]
    bounds_ms = np.concatenate([outages.lower_ms, outages.upper_ms, [until_ms]])
    cuts_ms = np.unique(np.concatenate([known.edges_ms, moments_ms, bounds_ms]))
    cuts_ms = cuts_ms[cuts_ms <= last_ms]
    # Between two cuts the density is constant and the cost linear: its midpoint is its mean.
    middles_ms = (cuts_ms[:-1] + cuts_ms[1:]) / 2
    cell = np.searchsorted(known.edges_ms, middles_ms) - 1
    shares = known.shares[cell] * np.diff(cuts_ms) / np.diff(known.edges_ms)[cell]
    ends_ms, shares = np.append(middles_ms, np.inf), np.append(shares, known.shares[-1])
    counted = _costs_at(ends_ms, moments_ms) * (ends_ms <= until_ms)[:, None]
    values = np.column_stack([counted, np.ones(len(ends_ms))])
    up_to = np.vstack([np.zeros(4), np.cumsum(values * shares[:, None], axis=0)])
    first = np.searchsorted(cuts_ms, np.minimum(outages.lower_ms, last_ms))
    last = np.where(np.isinf(outages.upper_ms), -1, np.searchsorted(cuts_ms, outages.upper_ms))
    within = up_to[last] - up_to[first]
    found: Numbers = within[:, :3] / within[:, 3:]
    return found


def means(values: Numbers, rng: np.random.Generator, resamples: int) -> list[Mean]:
    """Returns the mean of each column, and its interval by the percentiles of a bootstrap.

    B. Efron and R. J. Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13.
    """
    chances = np.full(len(values), 1 / len(values))
    # One at a time: all draws together would not fit into memory.
    drawn = [rng.multinomial(len(values), chances) @ values for _ in range(resamples)]
    low, high = np.percentile(np.array(drawn) / len(values), [2.5, 97.5], axis=0)
    return [Mean(*map(float, of)) for of in zip(values.mean(axis=0), low, high, strict=True)]


def _costs_at(ends_ms: Numbers, moments_ms: Numbers) -> Numbers:
    """Returns idle ms, probes, and 1 if covered, of outages of exactly these durations."""
    failed = np.searchsorted(moments_ms, ends_ms)
    is_covered = failed < len(moments_ms)
    idle_ms = np.zeros(len(ends_ms))
    idle_ms[is_covered] = moments_ms[failed[is_covered]] - ends_ms[is_covered]
    return np.column_stack([idle_ms, failed + is_covered, is_covered])
