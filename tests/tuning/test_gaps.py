"""Where the running strategy makes no attempt, that is said."""

import pytest

from linear_retry.tuning.durations import estimate
from linear_retry.tuning.gaps import Gap, widest_gap
from linear_retry.tuning.outages import Outages
from tests.tuning.recorded import durations_ms, recorded

SECOND_MS = 1000


def _widest(outages: Outages) -> Gap | None:
    return widest_gap(outages, estimate(outages), shortest_ms=SECOND_MS)


def test_most_ended_between_two_attempts() -> None:
    """Seven of ten outages ended between 36 s and 336 s: nobody looked when."""
    found = _widest(Outages.of([1000] * 3 + [36_000] * 7, [6000] * 3 + [336_000] * 7))
    assert found is not None
    assert (36_000, 336_000, False) == (found.from_ms, found.until_ms, found.jitter_helps)
    assert found.share == pytest.approx(0.7, abs=0.01)


def test_jitter_fills_a_gap_that_is_short_for_the_time_before_it() -> None:
    """Attempts each 10 minutes after an hour: with jitter, they would be at any time."""
    steady = (3_600_000, *[1_200_000] * 40)
    true_ms = durations_ms(1, 200, median_s=4000, spread=0.2)
    found = _widest(recorded(true_ms, steady))
    assert found is not None
    assert (3_600_000, 4_800_000, True) == (found.from_ms, found.until_ms, found.jitter_helps)
    jittered = _widest(recorded(true_ms, (1_200_000,) * 40, jitter=0.5))
    assert jittered is None


@pytest.mark.parametrize("delays_ms", [(1000,) * 900, (10_000,) * 90])
def test_close_attempts_leave_no_gap(delays_ms: tuple[int, ...]) -> None:
    """Nor does one with hardly any outages in it."""
    assert _widest(recorded(durations_ms(1, 200), delays_ms)) is None
