"""The trend of a line."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

Points: TypeAlias = Sequence[tuple[float, float]]
"""Time in seconds, and what was seen then."""

FEWEST_POINTS = 10
_MOST_POINTS = 400


@dataclass(frozen=True, slots=True)
class Trend:
    """How a line goes: `growth` over the `window_s` that it was looked at."""

    growth: float
    window_s: float

    @property
    def per_hour(self) -> float:
        return self.growth / self.window_s * 3600


def after_warm_up(points: Points, warm_up_s: float) -> Points:
    """Those that are later than the first one by so much."""
    return [point for point in points if point[0] >= points[0][0] + warm_up_s]


def trend(settled: Points) -> Trend | None:
    """By the median of the slopes between any two points (Theil 1950, Sen 1968).

    So neither one outlier, nor a fourth of them, nor a single step early or late makes a slope.
    None where there are fewer than `FEWEST_POINTS`.
    """
    if len(settled) < FEWEST_POINTS:
        return None
    window_s = settled[-1][0] - settled[0][0]
    few = settled[:: -(-len(settled) // _MOST_POINTS)]
    slopes = [
        (later - sooner) / (later_s - sooner_s)
        for index, (sooner_s, sooner) in enumerate(few)
        for later_s, later in few[index + 1 :]
        if later_s > sooner_s
    ]
    return Trend(statistics.median(slopes) * window_s, window_s)


def sparkline(points: Points, width: int = 24) -> str:
    """The line in `width` characters at most: each the mean of its share of the points."""
    values = [value for _, value in points]
    if not values:
        return ""
    count = min(width, len(values))
    means = [
        statistics.fmean(values[len(values) * n // count : len(values) * (n + 1) // count])
        for n in range(count)
    ]
    low, high = min(means), max(means)
    step = (high - low) / 7 or 1.0
    return "".join("▁▂▃▄▅▆▇█"[int((mean - low) / step)] for mean in means)
