"""Is the estimated distribution the likeliest one, and near the true one?"""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lifelines.fitters.npmle import npmle  # type: ignore[import-untyped]

from linear_retry.errors import UsageError
from linear_retry.tuning.lengths import estimate
from linear_retry.tuning.outages import Outages
from tests.tuning.recorded import lengths_ms, recorded

DELAYS_MS = (1000, 5000, 10_000, 30_000, 60_000, 300_000, 600_000, 3_600_000)
bounds = st.lists(
    st.tuples(st.integers(0, 18), st.integers(1, 18) | st.just(inf)), min_size=1, max_size=25
)


def _outages(found: list[tuple[int, float]]) -> Outages:
    """In whole seconds: up to 20 s the cells are, and the estimate is Turnbull's."""
    lower = [1000 * low for low, _ in found]
    return Outages.of(
        lower, [1000 * min(20, low + more) if more < inf else inf for low, more in found]
    )


@settings(deadline=None, max_examples=60)
@given(bounds)
def test_no_distribution_is_likelier(found: list[tuple[int, float]]) -> None:
    """Lifelines' estimate makes the recorded bounds no likelier, but for the precision of both."""
    outages = _outages(found)
    within = estimate(outages).lengths().within
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


def test_without_overlap_it_is_kaplan_and_meiers() -> None:
    """Ends within one second, and outages given up: the product-limit estimate, by hand."""
    outages = Outages.of([0, 1000, 1000, 2000, 3000, 3000], [1000, 2000, inf, 3000, 4000, inf])
    within = estimate(outages).lengths(rounded_to_ms=1000).within
    expected = [1 - 5 / 6, 1 - 5 / 6 * 3 / 4, 1 - 5 / 6 * 3 / 4 * 2 / 3]
    assert expected == pytest.approx([within(1000), within(2000), within(3000)], abs=2e-3)


@pytest.mark.parametrize("jitter", [0, 0.001, 0.5])
def test_it_is_near_the_true_distribution(jitter: float) -> None:
    """Of 3000 outages that a strategy has met, the shares at any time are off by 0.04 at most.

    Also where its probes are at nearly the same moments each time.
    """
    true_ms = lengths_ms(1, 3000)
    lengths = estimate(recorded(true_ms, DELAYS_MS, jitter)).lengths()
    for at_ms in np.cumsum(DELAYS_MS):
        assert lengths.within(int(at_ms)) == pytest.approx(np.mean(true_ms <= at_ms), abs=0.04)


def test_one_outage_is_spread_evenly() -> None:
    """Nothing says where between its bounds it ended."""
    lengths = estimate(Outages.of([2000], [5000])).lengths(rounded_to_ms=1000)
    assert (3000, 4000, 5000) == lengths.lengths_ms[-3:]
    assert lengths.shares[-3:] == pytest.approx((1 / 3,) * 3, abs=0.01)


def test_outages_without_an_end_have_no_length() -> None:
    """Where none has ended, no share is known to end at all."""
    lengths = estimate(Outages.of([2000, 5000], [inf, inf])).lengths()
    assert ((), ()) == (lengths.lengths_ms, lengths.shares)


def test_of_no_outage_nothing_is_estimated() -> None:
    """An estimate of nothing would be an invention."""
    with pytest.raises(UsageError, match="no outage"):
        estimate(Outages.of([], []))
