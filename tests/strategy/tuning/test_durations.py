"""The estimated distribution is likely, smooth, and near the true one."""

from collections.abc import Sequence
from functools import partial
from itertools import accumulate, product
from math import inf

import numpy as np
import pytest

from linear_retry.strategy.tuning.durations import MAX_OUTAGES, Estimate, bands, ended_ms, estimate
from linear_retry.strategy.tuning.outages import Numbers, Outages
from tests.strategy.tuning.beside_lifelines import DELAYS_MS, of_lifelines
from tests.strategy.tuning.recorded import durations_ms, recorded, share_within

OTHER_MS = (20_000,) * 20


def _half_each(durations: Numbers, *strategies: Sequence[int], jitter: float = 0) -> Outages:
    """As two members with strategies of their own would have recorded them."""
    halves = np.array_split(durations, len(strategies))
    each = [recorded(*pair, jitter) for pair in zip(halves, strategies, strict=True)]
    bounds = np.hstack([[one.lower_ms, one.upper_ms] for one in each])
    return Outages.of(*bounds)


@pytest.mark.parametrize(
    ("strategies", "by"),
    [
        ([DELAYS_MS], 0.01),
        ([DELAYS_MS[:4]], 0.01),
        ([OTHER_MS[:5]], 0.01),
        # Bounds that are less than two cells apart, as at 16 and 20 s, share what is there.
        ([DELAYS_MS[:4], OTHER_MS], 0.03),
        ([DELAYS_MS, OTHER_MS], 0.03),
    ],
    ids=["one", "gives up", "few probes", "one of two gives up", "two"],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_where_bounds_are_equal_it_is_lifelines(
    strategies: Sequence[Sequence[int]], by: float, seed: int
) -> None:
    """At all probes, up to the last known end, the same share of 120 outages has ended."""
    outages = _half_each(durations_ms(seed, 120), *strategies)
    moments_ms = np.unique(np.concatenate([np.cumsum(each) for each in strategies]))
    moments_ms = moments_ms[moments_ms <= outages.upper_ms[np.isfinite(outages.upper_ms)].max()]
    assert len(moments_ms) >= 4
    low, high = of_lifelines(outages, moments_ms)
    known = estimate(outages)
    for at_ms, least, most in zip(moments_ms, low, high, strict=True):
        assert least - by <= known.within(at_ms) <= most + by


def test_where_no_bounds_are_equal_it_is_nearer_to_the_truth() -> None:
    """With jitter, of 9 times 60 outages: in the mean of five quantiles, nearly each time.

    There the likeliest distribution has all its share in slivers between bounds that differ by
    little, and no other would be the same: what counts is the distance from the true durations.
    """
    better, ours, theirs = 0, 0.0, 0.0
    for seed, jitter in product(range(3), (0.001, 0.1, 0.5)):
        true_ms = durations_ms(seed, 60)
        outages = recorded(true_ms, DELAYS_MS, jitter, seed)
        at_ms = np.quantile(true_ms, (0.1, 0.25, 0.5, 0.75, 0.9))
        true = np.array([np.mean(true_ms <= each) for each in at_ms])
        known = estimate(outages)
        off = np.abs(known.within(at_ms) - true).mean()
        far = np.abs(np.mean(of_lifelines(outages, at_ms), axis=0) - true).mean()
        better += off < far
        ours, theirs = ours + off / 9, theirs + far / 9
    assert better >= 7
    assert ours < 0.8 * theirs


def test_without_overlap_it_is_kaplan_and_meiers() -> None:
    """Ends within one second, and outages given up: nearly the product-limit estimate, by hand."""
    outages = Outages.of([0, 1000, 1000, 2000, 3000, 3000], [1000, 2000, inf, 3000, 4000, inf])
    within = partial(share_within, estimate(outages).durations(rounded_to_ms=1000))
    expected = [1 - 5 / 6, 1 - 5 / 6 * 3 / 4, 1 - 5 / 6 * 3 / 4 * 2 / 3]
    assert expected == pytest.approx([within(1000), within(2000), within(3000)], abs=0.03)


@pytest.mark.parametrize("jitter", [0, 0.001, 0.5])
def test_it_is_near_the_true_distribution(jitter: float) -> None:
    """Of 3000 outages that a strategy has met, the shares at any time are off by 0.04 at most.

    Also where its probes are at nearly the same moments each time.
    """
    true_ms = durations_ms(1, 3000)
    durations = estimate(recorded(true_ms, DELAYS_MS, jitter)).durations()
    for at_ms in accumulate(DELAYS_MS):
        assert share_within(durations, at_ms) == pytest.approx(np.mean(true_ms <= at_ms), abs=0.04)


def test_one_outage_is_spread_over_its_bounds() -> None:
    """Nothing says where between its bounds it ended: no second there has much more than others."""
    durations = estimate(Outages.of([2000], [5000])).durations(rounded_to_ms=1000)
    assert (3000, 4000, 5000) == durations.durations_ms[-3:]
    assert durations.shares[-3:] == pytest.approx((1 / 3,) * 3, abs=0.08)
    assert sum(durations.shares[-3:]) == pytest.approx(1, abs=0.01)


def test_bounds_that_jitter_puts_together_make_no_sliver() -> None:
    """Each fifth of a duration has at most half more share than the true distribution gives it.

    Of 200 outages with jitter, the likeliest distribution has slivers with ten times their share:
    a strategy that probes just after each of them costs up to twice as much as the best one.
    """
    true_ms = durations_ms(1, 200)
    known = estimate(recorded(true_ms, DELAYS_MS, jitter=0.3))
    edges_ms = np.geomspace(10_000, 600_000, 24)
    many_ms = durations_ms(2, 100_000)
    shares = np.diff([np.mean(many_ms <= edge_ms) for edge_ms in edges_ms])
    assert (np.diff(known.within(edges_ms)) < 1.5 * shares + 0.01).all()


def test_outages_without_an_end_have_no_length() -> None:
    """Where none has ended, no share is known to end at all."""
    durations = estimate(Outages.of([2000, 5000], [inf, inf])).durations()
    assert ((), ()) == (durations.durations_ms, durations.shares)


_FOR_BANDS_MS = (*[5000] * 60, *[60_000] * 60)
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
        known = recorded(durations_ms(seed, 60), _FOR_BANDS_MS)
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
