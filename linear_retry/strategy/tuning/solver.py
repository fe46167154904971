"""Finds the cheapest array of delays for a distribution of outage durations.

The probes of an outage come after its first failure, at the sums of the delays. An outage of
duration T ends with the first probe at T or later. It costs the time from T to that probe, in which
the dependency is back and messages still wait, and `probe_cost` for every probe; one that outlasts
the strategy costs its probes. Attempts take no time here, and there is no jitter.

This is the inspection problem of Barlow, Hunter and Proschan, Optimum Checking Procedures, J. SIAM
11 (1963), 1078-1095, on a distribution with finitely many durations and with two side conditions: a
shortest delay d, and a share of the outages that must end before the strategy does. It is solved
exactly, in three steps.

1. Few moments need to be considered. Take a best array. A probe that ends no outage is left out:
   that costs nothing, and the delay around it only grows. Any other probe is moved to the longest
   duration that it ends, or, where the delay before it would become shorter than d, to d after the
   probe before: it ends the same outages, earlier. So there is a best array in which each probe is
   at a duration, or d after the probe before it and in the last d before it is a duration.
   `_candidates_ms` are these moments. None lies d or more beyond the duration that must be reached:
   what comes later could be moved or left out too.
2. With F the distribution and M(t) the mean of T where T <= t, else 0, a probe at q that follows
   one at p adds

       w(p, q) = probe_cost * (1 - F(p)) + q * (F(q) - F(p)) - (M(q) - M(p)),

   so a best array is a shortest path of at most n steps: f_k(q) is the least f_(k-1)(p) + w(p, q).
3. For a < b < c < e, w(a, c) + w(b, e) <= w(a, e) + w(b, c), since their difference is
   (e - c) * (F(b) - F(a)); infinite steps (shorter than d) keep that true. So f_k of a moment is
   convex in k (Aggarwal, Schieber and Tokuyama, Discrete Comput. Geom. 12, 1994): once one more
   probe is dearer at every end, still more of them are too.

With C moments, some thousand for an estimate, that is O(C^2) for each number of probes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import fsum, inf, isfinite
from typing import TYPE_CHECKING

from linear_retry.errors import UsageError
from linear_retry.strategy.delays import MAX_DELAY_S, MAX_DELAYS

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Conditions", "Unreachable"]

MAX_DURATION_MS = MAX_DELAY_S * 1000
"""No delay becomes longer than a strategy may have."""

DEFAULT_COVER = 0.95
"""The share of outages to outlast, unless another is asked for: 59 outages show as much."""
_ROUNDING = 1e-9
"""The most by which sums of shares are off; also, no float is exactly 0.999."""


@dataclass(frozen=True, slots=True)
class OutageDurations:
    """A distribution: `shares[i]` of outages last `durations_ms[i]`, the rest longer than all.

    Durations are whole milliseconds from 1 to 7 days, ascending; shares are above 0, and together 1
    at most.
    """

    durations_ms: tuple[int, ...]
    shares: tuple[float, ...]

    @classmethod
    def of(cls, weights: Iterable[tuple[int, float]], *, rounded_to_ms: int = 1) -> OutageDurations:
        """Builds it from pairs of duration and share, rounded up to a multiple of `rounded_to_ms`.

        Pairs may be in any order, and durations may repeat; those above 7 days then count as
        longer than all. With `rounded_to_ms` equal to the shortest delay, the solver has the fewest
        moments to consider; a bound for the rounded durations holds for the given ones.
        """
        found: dict[int, list[float]] = {}
        for duration_ms, share in weights:
            rounded_ms = -(-max(duration_ms, 1) // rounded_to_ms) * rounded_to_ms
            if share > 0 and rounded_ms <= MAX_DURATION_MS:
                found.setdefault(rounded_ms, []).append(share)
        return cls(tuple(sorted(found)), tuple(fsum(found[duration]) for duration in sorted(found)))


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions that an array of delays must meet.

    `cover` (0 to 1) of the outages end before it does; it has at most `max_delays` delays, none
    shorter than `shortest_ms`. Raises `UsageError` for values out of range.
    """

    cover: float = DEFAULT_COVER
    max_delays: int = 50
    shortest_ms: int = 1000

    def __post_init__(self) -> None:
        if not 0 < self.cover <= 1:
            raise UsageError(f"cover={self.cover}: it is a share; give more than 0, and 1 at most")
        if not 1 <= self.max_delays <= MAX_DELAYS:
            raise UsageError(f"max_delays={self.max_delays}: give 1 to {MAX_DELAYS}")
        if not 1 <= self.shortest_ms <= MAX_DURATION_MS:
            raise UsageError(f"shortest_ms={self.shortest_ms}: give 1 to {MAX_DURATION_MS}")


@dataclass(frozen=True, slots=True)
class Unreachable:
    """No array meets the conditions: only the share `covered` is known to end at all."""

    covered: float


def solve(
    durations: OutageDurations, probe_cost_ms: float, conditions: Conditions
) -> tuple[int, ...] | Unreachable:
    """Finds the cheapest array of delays, in ms, that meets the conditions.

    `probe_cost_ms`, 0 or more: the cost of one probe, as milliseconds of waiting after the end of
    an outage.
    """
    if not (isfinite(probe_cost_ms) and probe_cost_ms >= 0):
        raise UsageError(f"probe_cost_ms={probe_cost_ms}: give a finite number, 0 or more")
    import numpy as np  # imported here: `--help` shows the conditions, but must load nothing heavy

    up_to = np.cumsum([0.0, *durations.shares])
    wanted = reached(durations, conditions.cover)
    if wanted is None:
        return Unreachable(float(up_to[-1]))
    reach_ms = durations.durations_ms[wanted]
    moments_ms = np.array(_candidates_ms(durations.durations_ms, conditions.shortest_ms, reach_ms))
    ended = np.searchsorted(durations.durations_ms, moments_ms, side="right")
    share = up_to[ended]
    mean = np.cumsum([0.0, *np.multiply(durations.durations_ms, durations.shares)])[ended]
    # A row for each moment of a probe, a column for each moment that it may follow.
    at_ms = moments_ms[:, None]
    steps = at_ms * (share[:, None] - share) - (mean[:, None] - mean)
    steps += probe_cost_ms * np.maximum(0, 1 - share)
    steps[at_ms - moments_ms < conditions.shortest_ms] = inf
    reach = int(np.searchsorted(moments_ms, reach_ms))
    path = _cheapest(steps, reach, conditions.max_delays)
    return tuple(np.diff(moments_ms[path]).tolist())


def reached(durations: OutageDurations, cover: float) -> int | None:
    """Returns the number of the duration by which this share has ended; None if it never has."""
    ended = list(accumulate(durations.shares))
    wanted = bisect_left(ended, cover - _ROUNDING)
    return None if wanted == len(ended) else wanted


def _candidates_ms(durations_ms: Sequence[int], shortest_ms: int, reach_ms: int) -> list[int]:
    """Returns 0 and every moment at which an optimal array may probe, ascending."""
    found: set[int] = set()
    for start_ms in (0, *(duration for duration in durations_ms if duration >= shortest_ms)):
        moment_ms, ends_one = start_ms, True
        while ends_one and moment_ms < reach_ms + shortest_ms and moment_ms not in found:
            found.add(moment_ms)
            ended = bisect_right(durations_ms, moment_ms)
            moment_ms += shortest_ms
            ends_one = bisect_right(durations_ms, moment_ms) > ended
    return sorted(found)


def _cheapest(steps: npt.NDArray[np.float64], reach: int, max_delays: int) -> list[int]:
    """Returns the moments of the cheapest path from 0 to `reach` or beyond, including 0."""
    costs = steps[:, 0]
    layers = [[0] * len(costs)]
    best, end, count = costs[reach], reach, 1
    while True:
        ends = costs[reach:]
        if ends.min() < best:
            best, end, count = ends.min(), reach + int(ends.argmin()), len(layers)
        if len(layers) == max_delays:
            break
        paths = costs + steps
        layers.append(paths.argmin(axis=1).tolist())
        before, costs = costs, paths.min(axis=1)
        if (costs[reach:] >= before[reach:]).all():
            break
    path = [end]
    for chosen in reversed(layers[:count]):
        path.append(chosen[path[-1]])
    return path[::-1]
