"""A line that rises is distinguished from one that sways."""

import math
import random

import pytest

from tests.soak.trend import after_warm_up, sparkline, trend


def test_the_growth_of_a_straight_line() -> None:
    """The slope, over the time that was looked at."""
    found = trend([(float(second), 10 + 0.5 * second) for second in range(101)])
    assert found is not None
    assert (50.0, 100.0, 1800.0) == (found.growth, found.window_s, found.per_hour)


def test_noise_and_outliers_make_no_slope() -> None:
    """A line that sways, with every tenth point far off towards its end, is flat."""
    rng = random.Random(1)
    points = [(float(second), 40 + rng.gauss(0, 0.5)) for second in range(1000)]
    far_off = [(at_s, 90.0 if at_s > 500 and at_s % 10 == 0 else value) for at_s, value in points]
    found = trend(far_off)
    assert found is not None
    assert abs(found.growth) < 0.5


def test_a_leak_under_noise_is_seen() -> None:
    """What grows steadily, a tenth of the noise each minute, has grown at the end."""
    rng = random.Random(2)
    found = trend([(float(s), 40 + s / 600 + rng.gauss(0, 1)) for s in range(1800)])
    assert found is not None
    assert math.isclose(3.0, found.growth, abs_tol=0.5)


def test_a_rebalance_that_adds_a_level_late_is_no_slope() -> None:
    """One step in the last quarter moves the median of all slopes by nothing."""
    found = trend([(float(second), 3.0 if second < 80 else 4.0) for second in range(100)])
    assert found is not None
    assert 0 == found.growth


@pytest.mark.parametrize("count", [0, 1, 9])
def test_too_few_points_say_nothing(count: int) -> None:
    """No slope is better than a wrong one."""
    assert trend([(float(number), 1.0) for number in range(count)]) is None


def test_the_warm_up_is_left_out() -> None:
    """It is counted from the first point of a life, whenever that began."""
    points = [(100.0 + second, float(second)) for second in range(10)]
    assert [105.0, 106.0, 107.0, 108.0, 109.0] == [at_s for at_s, _ in after_warm_up(points, 5)]
    assert [] == after_warm_up([], 5)


@pytest.mark.parametrize(
    ("values", "expected"),
    [([], ""), ([5, 5, 5], "▁▁▁"), ([0, 7], "▁█"), ([0, 1, 2, 3, 4, 5, 6, 7], "▁▂▃▄▅▆▇█")],
)
def test_a_line_is_drawn(values: list[float], expected: str) -> None:
    """From the lowest to the highest in eight steps."""
    assert expected == sparkline([(float(at), value) for at, value in enumerate(values)])


def test_a_long_line_is_drawn_short() -> None:
    """Each character is the mean of its share."""
    points = [(float(number), float(number // 50)) for number in range(100)]
    assert "▁▁██" == sparkline(points, width=4)
