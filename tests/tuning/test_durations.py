"""The estimated distribution is the likeliest one, and near the true one."""

from collections.abc import Sequence
from functools import partial
from itertools import accumulate, product
from math import inf

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lifelines.fitters.npmle import npmle  # type: ignore[import-untyped]

from linear_retry.tuning.durations import estimate
from linear_retry.tuning.outages import Numbers, Outages
from tests.tuning.beside_lifelines import DELAYS_MS, of_lifelines
from tests.tuning.recorded import durations_ms, recorded, share_within

OTHER_MS = (20_000,) * 20
bounds = st.lists(
    st.tuples(st.integers(0, 18), st.integers(1, 18) | st.just(inf)), min_size=1, max_size=25
)


def _outages(found: list[tuple[int, float]]) -> Outages:
    """In whole seconds: up to 20 s the cells are, and the estimate is Turnbull's."""
    lower = [1000 * low for low, _ in found]
    return Outages.of(
        lower, [1000 * min(20, low + more) if more < inf else inf for low, more in found]
    )


# Lifelines' own search may end early; ours must be at least as likely all the same.
@pytest.mark.filterwarnings("ignore:Exceeded max iterations")
@settings(deadline=None, max_examples=60)
@given(bounds)
@example([(5, 2), (5, 1), (2, inf), (2, inf), (2, inf), (0, 1), (1, inf)])
def test_no_distribution_is_likelier(found: list[tuple[int, float]]) -> None:
    """Lifelines' estimate makes the recorded bounds no likelier, but for the precision of both."""
    outages = _outages(found)
    within = partial(share_within, estimate(outages).durations())
    upper = [1 if np.isinf(high) else within(int(high)) for high in outages.upper_ms]
    ours = np.array(upper) - [within(int(low)) for low in outages.lower_ms]
    with np.errstate(divide="ignore", invalid="ignore"):  # its issue 1151: one interval only
        shares, intervals = npmle(outages.lower_ms + 1, outages.upper_ms)
    theirs = [
        sum(
            share
            for share, each in zip(shares, intervals, strict=True)
            if low < each.left and each.right <= high
        )
        for low, high in zip(outages.lower_ms, outages.upper_ms, strict=True)
    ]
    assert ours.min() > 0
    assert np.log(ours).mean() >= np.log(theirs / shares.sum()).mean() - 2e-3


def _half_each(durations: Numbers, *strategies: Sequence[int], jitter: float = 0) -> Outages:
    """As two members with strategies of their own would have recorded them."""
    halves = np.array_split(durations, len(strategies))
    each = [recorded(*pair, jitter) for pair in zip(halves, strategies, strict=True)]
    bounds = np.hstack([[one.lower_ms, one.upper_ms] for one in each])
    return Outages.of(*bounds)


@pytest.mark.parametrize(
    ("strategies", "by"),
    [
        ([DELAYS_MS], 0.003),
        ([DELAYS_MS[:4]], 0.003),
        ([OTHER_MS[:5]], 0.003),
        ([DELAYS_MS[:4], OTHER_MS], 0.003),
        # At 346 and 360 s there are bounds in one cell, 5 per cent of a duration.
        ([DELAYS_MS, OTHER_MS], 0.02),
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
    """Ends within one second, and outages given up: the product-limit estimate, by hand."""
    outages = Outages.of([0, 1000, 1000, 2000, 3000, 3000], [1000, 2000, inf, 3000, 4000, inf])
    within = partial(share_within, estimate(outages).durations(rounded_to_ms=1000))
    expected = [1 - 5 / 6, 1 - 5 / 6 * 3 / 4, 1 - 5 / 6 * 3 / 4 * 2 / 3]
    assert expected == pytest.approx([within(1000), within(2000), within(3000)], abs=2e-3)


@pytest.mark.parametrize("jitter", [0, 0.001, 0.5])
def test_it_is_near_the_true_distribution(jitter: float) -> None:
    """Of 3000 outages that a strategy has met, the shares at any time are off by 0.04 at most.

    Also where its probes are at nearly the same moments each time.
    """
    true_ms = durations_ms(1, 3000)
    durations = estimate(recorded(true_ms, DELAYS_MS, jitter)).durations()
    for at_ms in accumulate(DELAYS_MS):
        assert share_within(durations, at_ms) == pytest.approx(np.mean(true_ms <= at_ms), abs=0.04)


def test_one_outage_is_spread_evenly() -> None:
    """Nothing says where between its bounds it ended."""
    durations = estimate(Outages.of([2000], [5000])).durations(rounded_to_ms=1000)
    assert (3000, 4000, 5000) == durations.durations_ms[-3:]
    assert durations.shares[-3:] == pytest.approx((1 / 3,) * 3, abs=0.01)


def test_outages_without_an_end_have_no_length() -> None:
    """Where none has ended, no share is known to end at all."""
    durations = estimate(Outages.of([2000, 5000], [inf, inf])).durations()
    assert ((), ()) == (durations.durations_ms, durations.shares)
