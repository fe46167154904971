"""The costs of a strategy in recorded outages and their intervals are right."""

from itertools import accumulate
from math import inf

import numpy as np
import pytest

from examples.fleet.costs import cost
from linear_retry.strategy.tuning.durations import estimate
from linear_retry.strategy.tuning.held_out import compare, means, outage_costs
from linear_retry.strategy.tuning.outages import Outages
from linear_retry.strategy.tuning.proposal import propose
from linear_retry.strategy.tuning.solver import Conditions
from tests.strategy.tuning.recorded import durations_ms, recorded

CURRENT_MS = (*[10_000] * 30, *[300_000] * 24, *[3_600_000] * 12)
PROBE_COST_MS = 20_000


def _rng() -> np.random.Generator:
    return np.random.default_rng(7)


def _true_costs(
    delays_ms: tuple[int, ...], true_ms: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> float:
    """By hand, of durations that only the test knows."""
    moments = list(accumulate(delays_ms))
    total = 0.0
    for duration_ms in true_ms.tolist():
        failed = sum(at_ms < duration_ms for at_ms in moments)
        ends = failed < len(moments)
        total += (moments[failed] - duration_ms if ends else 0) + PROBE_COST_MS * (failed + ends)
    return total / len(true_ms)


def test_the_mean_is_that_of_the_estimate() -> None:
    """What outages cost in the mean is what the estimated distribution costs."""
    outages = recorded(durations_ms(5, 800), CURRENT_MS, jitter=0.3)
    known = estimate(outages)
    expected = cost(CURRENT_MS, known.durations())
    idle_ms, probes, covered = outage_costs(CURRENT_MS, outages, known).mean(axis=0)
    assert idle_ms == pytest.approx(expected.idle_ms, rel=5e-3)
    assert probes == pytest.approx(expected.probes, rel=5e-3)
    assert covered == pytest.approx(expected.covered, abs=1e-3)


def test_the_cost_is_near_the_true_one() -> None:
    """Although only bounds of the durations were recorded, and by another strategy's probes."""
    true_ms = durations_ms(6, 2000)
    outages = recorded(true_ms, CURRENT_MS, jitter=0.3)
    other = (5000, 20_000, *[120_000] * 20, *[7_200_000] * 5)
    idle_ms, probes, _ = outage_costs(other, outages, estimate(outages)).mean(axis=0)
    assert idle_ms + PROBE_COST_MS * probes == pytest.approx(_true_costs(other, true_ms), rel=0.05)


def test_what_is_proposed_is_cheaper_on_outages_that_it_did_not_see() -> None:
    """Learned on some, compared on others: the saving is there, and surely above nothing."""
    true_ms = durations_ms(8, 1500)
    outages = recorded(true_ms, CURRENT_MS, jitter=0.3)
    seen = np.arange(len(outages)) < 1000
    found = propose(outages.chosen(seen), PROBE_COST_MS, Conditions(cover=0.99))
    assert isinstance(found, tuple)
    comparison = compare(CURRENT_MS, found, outages.chosen(~seen), PROBE_COST_MS, rng=_rng())
    unseen_ms = true_ms[~seen]
    assert comparison.current is not None
    assert comparison.saved is not None
    before, after = comparison.current.total_ms, comparison.proposed.total_ms
    assert before.low <= _true_costs(CURRENT_MS, unseen_ms) <= before.high
    assert after.low <= _true_costs(found, unseen_ms) <= after.high
    assert comparison.saved.low > 0
    assert comparison.proposed.covered.mean >= 0.98


def test_without_a_current_strategy_the_other_costs_the_same() -> None:
    """What is not known is not compared, and changes nothing of what is."""
    outages = recorded(durations_ms(8, 100), CURRENT_MS)
    other = (60_000,) * 60
    alone = compare(None, other, outages, 1000, rng=_rng())
    assert (None, None, None) == (alone.current, alone.saved, alone.both)
    assert compare(CURRENT_MS, other, outages, 1000, rng=_rng()).proposed == alone.proposed


def test_an_outage_given_up_costs_its_probes() -> None:
    """Where the strategy ends before it could, nothing waits any more, and nothing is covered."""
    outages = Outages.of([9000, 0], [inf, 1000])
    found = outage_costs((2000, 3000), outages, estimate(outages))
    assert found[0] == pytest.approx([0, 2, 0])
    assert found[1] == pytest.approx([1500, 1, 1], abs=2)  # 1 s at most, 0.5 s in the mean


def test_a_saving_is_of_outages_that_both_cover() -> None:
    """A strategy that ends after a second saves nothing in outages that it does not cover."""
    outages = recorded(durations_ms(9, 200), CURRENT_MS)
    found = compare(CURRENT_MS, (1000,), outages, 20_000, rng=_rng())
    assert found.saved is not None
    assert found.both is not None
    assert found.current is not None
    assert found.both.mean == pytest.approx(found.proposed.covered.mean)
    assert found.both.mean < 0.05
    assert abs(found.saved.mean) < 0.05 * found.current.total_ms.mean


def test_a_saving_of_equal_reach_is_the_difference_of_the_costs() -> None:
    """Where both cover everything that ended, nothing is left out."""
    outages = recorded(durations_ms(9, 200), CURRENT_MS)
    other = (60_000,) * 600
    found = compare(CURRENT_MS, other, outages, 20_000, rng=_rng())
    assert found.saved is not None
    assert found.current is not None
    less = found.current.total_ms.mean - found.proposed.total_ms.mean
    assert found.saved.mean == pytest.approx(less)


@pytest.mark.parametrize(("cover", "is_confirmed"), [(0.75, True), (0.76, False)])
def test_what_is_not_covered_confirms_nothing(cover: float, is_confirmed: bool) -> None:
    """One of four outages outlasts the proposal: it covers 0.75 of them, and no more."""
    outages = Outages.of([0, 0, 0, 9000], [1000, 1000, 1000, inf])
    found = compare(None, (1000,), outages, 0, rng=_rng())
    assert is_confirmed == found.confirms(cover)


def test_an_interval_is_wrong_in_one_case_of_twenty() -> None:
    """Of 200 samples of 100 values, about 95 per cent of the intervals hold the true mean."""
    rng = _rng()
    held = 0
    for _ in range(200):
        values = rng.exponential(1, (100, 1))
        [found] = means(values, rng, 250)
        held += found.low <= 1 <= found.high
    assert 0.88 <= held / 200 <= 0.98
