"""Confidence bands of the distribution of outage durations."""

from collections.abc import Iterator, Sequence

import numpy as np

from linear_retry.tuning.durations import Estimate, estimate
from linear_retry.tuning.outages import Numbers, Outages

MAX_OUTAGES = 5000
"""Of more outages a sample of this size is used: the band is 3% wide then, and takes seconds."""


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
