"""Compares what two strategies would have cost in recorded outages, with confidence intervals."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from linear_retry.tuning.durations import Estimate, estimate
from linear_retry.tuning.outages import Numbers, Outages

__all__ = ["Comparison", "compare"]


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

    `current` and `saved` are None without a current strategy.
    """

    current: Costs | None
    proposed: Costs
    saved: Mean | None


def compare(
    current_ms: Sequence[int] | None,
    proposed_ms: Sequence[int],
    outages: Outages,
    probe_cost_ms: float,
    *,
    rng: np.random.Generator,
    concurrent: npt.NDArray[np.int_] | None = None,
    resamples: int = 1000,
) -> Comparison:
    """Compares two arrays of delays on outages that the proposed one was not made from.

    Outages are resampled `resamples` times; those with the same number in `concurrent` together.
    Both strategies get the same draws, so `saved` is more precise than either by itself.
    """
    known = estimate(outages)
    arrays = [proposed_ms] if current_ms is None else [proposed_ms, current_ms]
    each = [_with_total(outage_costs(one, outages, known), probe_cost_ms) for one in arrays]
    if current_ms is not None:
        each.append(each[1][:, -1:] - each[0][:, -1:])
    if concurrent is None:
        concurrent = np.arange(len(outages))
    found = means(np.hstack(each), concurrent, rng, resamples)
    if current_ms is None:
        return Comparison(None, Costs(*found), None)
    return Comparison(Costs(*found[4:8]), Costs(*found[:4]), found[8])


def _with_total(costs: Numbers, probe_cost_ms: float) -> Numbers:
    return np.column_stack([costs, costs[:, 0] + probe_cost_ms * costs[:, 1]])


def outage_costs(delays_ms: Sequence[int], outages: Outages, known: Estimate) -> Numbers:
    """Returns the idle time in ms, the probes, and the chance to be covered, of each outage.

    All are means over its possible ends: distributed like all outages (`known`), within its own
    bounds. The mean over all outages is that of the estimate itself (Turnbull's self-consistency).
    The part that may last longer than any outage with a known end counts as not covered.
    """
    moments_ms = np.cumsum(np.array(delays_ms, np.float64))
    last_ms = known.edges_ms[-1]
    finite_ms = outages.upper_ms[np.isfinite(outages.upper_ms)]
    cuts_ms = np.unique(np.concatenate([known.edges_ms, moments_ms, outages.lower_ms, finite_ms]))
    cuts_ms = cuts_ms[cuts_ms <= last_ms]
    # Between two cuts the density is constant and the cost linear: its midpoint is its mean.
    middles_ms = (cuts_ms[:-1] + cuts_ms[1:]) / 2
    cell = np.searchsorted(known.edges_ms, middles_ms) - 1
    shares = known.shares[cell] * np.diff(cuts_ms) / np.diff(known.edges_ms)[cell]
    ends_ms, shares = np.append(middles_ms, np.inf), np.append(shares, known.shares[-1])
    values = np.column_stack([_costs_at(ends_ms, moments_ms), np.ones(len(ends_ms))])
    up_to = np.vstack([np.zeros(4), np.cumsum(values * shares[:, None], axis=0)])
    first = np.searchsorted(cuts_ms, np.minimum(outages.lower_ms, last_ms))
    last = np.where(np.isinf(outages.upper_ms), -1, np.searchsorted(cuts_ms, outages.upper_ms))
    within = up_to[last] - up_to[first]
    found: Numbers = within[:, :3] / within[:, 3:]
    return found


def means(
    values: Numbers, concurrent: npt.NDArray[np.int_], rng: np.random.Generator, resamples: int
) -> list[Mean]:
    """Returns the mean of each column, and its interval by the percentiles of a bootstrap.

    Rows with the same number in `concurrent` are drawn together. B. Efron and R. J. Tibshirani, An
    Introduction to the Bootstrap, 1993, chapters 8 and 13.
    """
    _, which = np.unique(concurrent, return_inverse=True)
    sums = np.zeros((which.max() + 1, values.shape[1] + 1))
    np.add.at(sums, which, np.column_stack([values, np.ones(len(values))]))
    chances = np.full(len(sums), 1 / len(sums))
    # One at a time: all draws together would not fit into memory.
    totals = np.array([rng.multinomial(len(sums), chances) @ sums for _ in range(resamples)])
    low, high = np.percentile(totals[:, :-1] / totals[:, -1:], [2.5, 97.5], axis=0)
    return [Mean(*map(float, of)) for of in zip(values.mean(axis=0), low, high, strict=True)]


def _costs_at(ends_ms: Numbers, moments_ms: Numbers) -> Numbers:
    """Returns idle ms, probes, and 1 if covered, of outages of exactly these durations."""
    failed = np.searchsorted(moments_ms, ends_ms)
    is_covered = failed < len(moments_ms)
    idle_ms = np.zeros(len(ends_ms))
    idle_ms[is_covered] = moments_ms[failed[is_covered]] - ends_ms[is_covered]
    return np.column_stack([idle_ms, failed + is_covered, is_covered])
