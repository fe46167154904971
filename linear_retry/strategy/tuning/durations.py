"""Estimates the distribution of outage durations, of which only bounds are known.

By maximum likelihood, with the self-consistency step of B. W. Turnbull, The Empirical Distribution
Function with Arbitrarily Grouped, Censored and Truncated Data, J. R. Statist. Soc. B 38 (1976),
290-295: distribute each outage over the cells where it may have ended, in proportion to their
current shares; add up; repeat. After each step the shares are smoothed over neighbouring cells:
B. W. Silverman, M. C. Jones, J. D. Wilson and D. W. Nychka, A Smoothed EM Approach to Indirect
Estimation Problems, J. R. Statist. Soc. B 52 (1990), 271-324.

Without the smoothing, the likeliest distribution has all of its share in slivers between bounds
that jitter has put close together, and the cheapest strategy for it probes just after each sliver:
on true durations it costs up to twice as much as the best one (`python -m benchmarks
tuning-optimum`). Cells are a second wide, or less where outages are, or 5% of a duration, so
the smoothing is relative: an estimate is as rough for hours as for seconds. Bounds are not rounded
to cells: an outage given up at a probe, and one that ended with it, must not overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from linear_retry.strategy.tuning.outages import Numbers, Outages
from linear_retry.strategy.tuning.solver import OutageDurations

_FINEST_MS = (10, 1000)
"""The limits of the shortest cell."""
_GROWTH = 1.05
_REACH = 6
_KERNEL = np.exp(-0.5 * (np.arange(-_REACH, _REACH + 1) / 2) ** 2)
"""A Gaussian with a deviation of two cells: 10% of a duration. Of 0.5 to 16 cells, it was near the
best for every distribution of the benchmark; to choose by cross-validation gained nothing."""
_POINTS = 1500
"""The number of durations for all cells: finer than any probe, and few enough for the solver."""
_PRECISION = 1e-4
"""The share that the last step has moved at most."""
_MAX_STEPS = 500

MAX_OUTAGES = 5000
"""Of more outages a sample of this size is used: the band is 3% wide then, and takes seconds."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """`shares[i]` of the outages last from `edges_ms[i]` to `edges_ms[i + 1]`, spread evenly.

    The last share is of those that last longer than the last edge. The shares add up to 1.
    """

    edges_ms: Numbers
    shares: Numbers

    def within(self, moments_ms: npt.ArrayLike) -> Numbers:
        """The shares of outages that last no longer than these times, as far as known."""
        return np.asarray(np.interp(np.asarray(moments_ms), self.edges_ms, self.ended))

    @property
    def ended(self) -> Numbers:
        """The share of outages that have ended at each edge."""
        return np.append(0, np.cumsum(self.shares[:-1]))

    def durations(self, *, rounded_to_ms: int = 1) -> OutageDurations:
        """Returns the estimate as a finite number of durations, none of them rounded down."""
        points = max(1, _POINTS // len(self.shares))
        cells = zip(self.edges_ms, self.edges_ms[1:], self.shares, strict=False)
        spread = (_spread(*each, points) for each in cells)
        return OutageDurations.of(chain.from_iterable(spread), rounded_to_ms=rounded_to_ms)


def estimate(outages: Outages) -> Estimate:
    """Estimates a smooth distribution under which the bounds of these outages are likely.

    There must be at least one.
    """
    edges_ms = _edges_ms(outages)
    likelihood = _Likelihood.of(outages, edges_ms)
    shares = np.full(len(edges_ms), 1 / len(edges_ms))  # none is 0, or it would stay 0
    for _ in range(_MAX_STEPS):
        before, shares = shares, _smoothed(shares * likelihood.gain(shares))
        if np.abs(shares - before).sum() <= _PRECISION:
            break
    shares = shares * likelihood.gain(shares)  # gives back what the smoothing took past a bound
    return Estimate(edges_ms, shares / shares.sum())


def _smoothed(shares: Numbers) -> Numbers:
    """Returns the shares blurred, but for the last: what has no known end stays apart."""
    if len(shares) == 1:
        return shares
    mirrored = np.pad(shares[:-1], _REACH, "symmetric")  # so that nothing is lost at the edges
    return np.append(np.convolve(mirrored, _KERNEL / _KERNEL.sum(), "valid"), shares[-1])


@dataclass(frozen=True, slots=True)
class _Likelihood:
    """The likelihood of the cells' shares, in time and memory linear in the number of outages."""

    edges_ms: Numbers
    lower: _Sorted
    upper: _Sorted
    is_endless: Numbers

    @classmethod
    def of(cls, outages: Outages, edges_ms: Numbers) -> _Likelihood:
        lower_ms, upper_ms = (
            np.minimum(bounds, edges_ms[-1]) for bounds in (outages.lower_ms, outages.upper_ms)
        )
        is_endless = np.isinf(outages.upper_ms).astype(np.float64)
        lower, upper = (_Sorted.of(bounds, edges_ms) for bounds in (lower_ms, upper_ms))
        return cls(edges_ms, lower, upper, is_endless)

    def gain(self, shares: Numbers) -> Numbers:
        """Returns how much likelier all outages become with more share in each cell."""
        ended = np.append(0, np.cumsum(shares[:-1]))
        chances = np.interp(self.upper.values, self.edges_ms, ended)
        chances += self.is_endless * shares[-1] - np.interp(self.lower.values, self.edges_ms, ended)
        weights = 1 / (len(chances) * chances)
        within = self.upper.minima(weights, self.edges_ms) - self.lower.minima(
            weights, self.edges_ms
        )
        cells = np.diff(within) / np.diff(self.edges_ms)
        return np.append(cells, weights @ self.is_endless)


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Values, their order, and the number of them below each edge."""

    values: Numbers
    order: npt.NDArray[np.int_]
    below: npt.NDArray[np.int_]

    @classmethod
    def of(cls, values: Numbers, edges_ms: Numbers) -> _Sorted:
        order = np.argsort(values)
        return cls(values, order, np.searchsorted(values[order], edges_ms))

    def minima(self, weights: Numbers, edges_ms: Numbers) -> Numbers:
        """Returns, for each edge, the sum of the weighted values, each capped at the edge."""
        weights = weights[self.order]
        counted = np.append(0, np.cumsum(weights))
        smaller = np.append(0, np.cumsum(weights * self.values[self.order]))[self.below]
        found: Numbers = smaller + edges_ms * (counted[-1] - counted[self.below])
        return found


def _edges_ms(outages: Outages) -> Numbers:
    """The cells' edges, up to the last known end."""
    known_ms = outages.upper_ms[np.isfinite(outages.upper_ms)]
    last_ms = known_ms.max(initial=0.0)
    finest_ms = np.clip(np.quantile(known_ms, 0.05), *_FINEST_MS) if len(known_ms) else 0.0
    found = [0.0]
    while found[-1] < last_ms:
        found.append(min(last_ms, max(found[-1] + finest_ms, found[-1] * _GROWTH)))
    return np.array(found)


def _spread(left_ms: float, right_ms: float, share: float, points: int) -> list[tuple[int, float]]:
    width_ms = (right_ms - left_ms) / points
    return [(int(np.ceil(left_ms + width_ms * k)), share / points) for k in range(1, points + 1)]


def bands(
    outages: Outages,
    at_ms: Numbers,
    shares: Sequence[float],
    *,
    rng: np.random.Generator,
    resamples: int,
) -> tuple[Numbers, Numbers]:
    """Returns the share that lasts longer than each time, and the time at which each share ends.

    Each row has the value and its bounds with 95% confidence, by the percentiles of a bootstrap; a
    time is infinity if fewer are known to end.
    """
    if len(outages) > MAX_OUTAGES:
        outages = outages.chosen(rng.choice(len(outages), MAX_OUTAGES, replace=False))

    def estimated(of: Outages) -> Numbers:
        known = estimate(of)
        return np.concatenate([1 - known.within(at_ms), ended_ms(known, shares)])

    drawn = np.array([estimated(each) for each in _resampled(outages, rng, resamples)])
    # No interpolation: next to infinity there is nothing to interpolate.
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0, method="inverted_cdf")
    # With few outages, the draws may be so far off that the estimate itself is outside.
    value = estimated(outages)
    found = np.column_stack([value, np.minimum(low, value), np.maximum(high, value)])
    return found[: len(at_ms)], found[len(at_ms) :]


def ended_ms(known: Estimate, shares: Sequence[float]) -> Numbers:
    """Returns the time by which each of these shares has ended; infinity if it never does."""
    ended = known.ended
    # The first of equal values: in a cell without a share nothing ends.
    cell = np.searchsorted(ended, shares)
    is_known = (cell > 0) & (cell < len(ended))
    right = np.where(is_known, cell, 1 if len(ended) > 1 else 0)
    before, after = ended[right - 1], ended[right]
    part = (np.asarray(shares) - before) / np.where(after > before, after - before, 1)
    left_ms, right_ms = known.edges_ms[right - 1], known.edges_ms[right]
    within_ms = left_ms + part * (right_ms - left_ms)
    return np.where(cell == 0, 0.0, np.where(is_known, within_ms, np.inf))


def _resampled(outages: Outages, rng: np.random.Generator, resamples: int) -> Iterator[Outages]:
    for _ in range(resamples):
        yield outages.chosen(rng.integers(0, len(outages), len(outages)))
