"""Where the running strategy makes no attempt, that is said, and what would tell more."""

import numpy as np
import pytest

from linear_retry.strategy.tuning.durations import estimate
from linear_retry.strategy.tuning.gaps import Gap, costliest_gap, with_attempts
from linear_retry.strategy.tuning.outages import Outages
from tests.strategy.tuning.recorded import durations_ms, recorded

SECOND_MS = 1000
PRICE_MS = 5000
SHORT_OUTAGE_MS = (1000, 5000, 30_000, 300_000, 300_000, 3_600_000)


def _costliest(outages: Outages, price_ms: float = PRICE_MS) -> Gap | None:
    return costliest_gap(outages, estimate(outages), price_ms, shortest_ms=SECOND_MS)


def test_most_ended_between_two_attempts() -> None:
    """Seven of ten outages ended between 36 s and 336 s: nobody looked when."""
    found = _costliest(Outages.of([1000] * 3 + [36_000] * 7, [6000] * 3 + [336_000] * 7))
    assert found is not None
    assert (36_000, 336_000) == (found.from_ms, found.until_ms)
    assert found.share == pytest.approx(0.7, abs=0.01)
    # Attempts 38.7 s apart, the root of 300 s times 5 s, in place of one: 36.2 s for each of them.
    assert found.cost_ms == pytest.approx(0.7 * 36_230, rel=0.02)


def test_a_gap_counts_by_what_it_costs() -> None:
    """Most of all outages end in one of 5 s, and a fifth in one of an hour, which was not named.

    Attempts in the former changed nothing; in the latter, they made the proposal a fifth cheaper.
    """
    rng = np.random.default_rng(1)
    true_ms = np.concatenate([rng.lognormal(np.log(5000), 0.2, 240), rng.uniform(1e6, 1.4e6, 60)])
    found = _costliest(recorded(np.ceil(true_ms), SHORT_OUTAGE_MS))
    assert found is not None
    assert (636_000, 4_236_000) == (found.from_ms, found.until_ms)
    assert found.share == pytest.approx(0.2, abs=0.01)


def test_two_more_attempts_fill_it() -> None:
    """The strategy to learn by makes all attempts of the present one, and divides its gap."""
    delays_ms = SHORT_OUTAGE_MS
    true_ms = durations_ms(1, 300, median_s=1200, spread=0.2)
    found = _costliest(recorded(true_ms, delays_ms))
    assert found is not None
    learning_ms = with_attempts(delays_ms, found)
    moments = {int(each) for each in np.cumsum(learning_ms)}
    assert {*np.cumsum(delays_ms).tolist(), *found.attempts_ms} == moments
    assert len(delays_ms) + 2 == len(learning_ms)
    filled = _costliest(recorded(true_ms, learning_ms))
    assert filled is not None
    assert filled.cost_ms < found.cost_ms / 1.4


@pytest.mark.parametrize(("lower_ms", "upper_ms"), [(0, 3000), (1000, 6000), (60_000, 75_000)])
def test_no_two_attempts_are_closer_than_allowed(lower_ms: int, upper_ms: int) -> None:
    """Neither to each other nor to those around them; the first gap begins at the failure."""
    found = _costliest(Outages.of([lower_ms] * 20, [upper_ms] * 20), 1000)
    assert found is not None
    moments_ms = (lower_ms, *found.attempts_ms, upper_ms)
    assert min(np.diff(moments_ms)) >= SECOND_MS


@pytest.mark.parametrize("delays_ms", [(1000,) * 900, (10_000,) * 90])
def test_close_attempts_leave_no_gap(delays_ms: tuple[int, ...]) -> None:
    """Nor does one with hardly any outages in it."""
    assert _costliest(recorded(durations_ms(1, 200), delays_ms)) is None


def test_a_gap_that_costs_little_beside_an_outage_is_not_named() -> None:
    """Where the best delays cost a minute, half a second of it is not worth learning."""
    outages = Outages.of([1000] * 20, [5000] * 20)
    known = estimate(outages)
    assert costliest_gap(outages, known, 5000, shortest_ms=SECOND_MS) is not None
    assert costliest_gap(outages, known, 5000, 60_000.0, shortest_ms=SECOND_MS) is None
