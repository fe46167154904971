"""The bands of outages' durations hold."""

import numpy as np
import pytest

from linear_retry.tuning.bands import MAX_OUTAGES, bands, ended_ms
from linear_retry.tuning.durations import Estimate
from linear_retry.tuning.outages import Outages
from tests.tuning.recorded import durations_ms, recorded

DELAYS_MS = (*[5000] * 60, *[60_000] * 60)
KNOWN = Estimate(np.array([0.0, 1000.0, 2000.0, 4000.0]), np.array([0.5, 0.0, 0.25, 0.25]))


def _rng() -> np.random.Generator:
    return np.random.default_rng(1)


def test_shares_of_an_estimate() -> None:
    """Evenly within a cell; and what has no end lasts for ever."""
    assert [0, 0.25, 0.5, 0.625, 0.75] == list(KNOWN.within([0.0, 500.0, 1500.0, 3000.0, 9e9]))


def test_times_of_an_estimate() -> None:
    """The inverse; the first time at which so many have ended; infinity for what never does."""
    found = ended_ms(KNOWN, [0, 0.25, 0.5, 0.625, 0.75, 0.76])
    assert [0, 500, 1000, 3000, 4000, np.inf] == list(found)
    endless = Estimate(np.array([0.0]), np.array([1.0]))
    assert [0, np.inf] == list(ended_ms(endless, [0, 0.5]))


def test_the_bounds_hold_the_truth() -> None:
    """Of many recordings of one distribution, nearly all have its median within their bounds."""
    held = 0
    for seed in range(8):
        known = recorded(durations_ms(seed, 60), DELAYS_MS)
        shares, times_ms = bands(known, np.array([60_000.0]), [0.5], rng=_rng(), resamples=30)
        (value, low, high), (middle_ms, low_ms, high_ms) = shares[0], times_ms[0]
        assert low <= value <= high
        assert low_ms <= middle_ms <= high_ms
        held += low <= 0.5 <= high
    assert held >= 6  # of 8, where 95 in 100 are expected


def test_of_many_outages_a_sample_is_taken() -> None:
    """An outage outside the sample counts for nothing: a million take no longer than thousands."""
    count = 2 * MAX_OUTAGES
    lower_ms, upper_ms = np.zeros(count), np.full(count, 1000.0)
    outside = np.setdiff1d(np.arange(count), _rng().choice(count, MAX_OUTAGES, replace=False))[0]
    lower_ms[outside], upper_ms[outside] = 1000.0, np.inf
    known = Outages.of(lower_ms, upper_ms)
    [[share, *_]], _ = bands(known, np.array([1000.0]), [], rng=_rng(), resamples=1)
    assert share == pytest.approx(0, abs=1e-9)
