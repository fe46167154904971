"""Finds the cheapest fixed interval, which is what delays are compared with.

Apart from `solver`, which the command line imports where there is no numpy.
"""

from __future__ import annotations

import numpy as np

from linear_retry.strategy.tuning.solver import Conditions, OutageDurations, reached

__all__ = ["cheapest_fixed", "mean_cost_ms"]

_CANDIDATES = 200
"""So many intervals are compared, each a few per cent longer than the one before."""


def cheapest_fixed(
    durations: OutageDurations, probe_cost_ms: float, conditions: Conditions
) -> tuple[int, ...] | None:
    """Returns the equal delays that meet the conditions and cost least; None if none meet them."""
    wanted = reached(durations, conditions.cover)
    if wanted is None:
        return None
    reach_ms = durations.durations_ms[wanted]
    shortest_ms = conditions.shortest_ms
    least_ms = max(shortest_ms, -(-reach_ms // conditions.max_delays))
    each_ms = np.geomspace(least_ms, max(least_ms, reach_ms), _CANDIDATES)
    intervals_ms = np.unique(np.ceil(each_ms / shortest_ms).astype(int)) * shortest_ms
    candidates: list[tuple[int, ...]] = [
        (interval_ms,) * -(-reach_ms // interval_ms) for interval_ms in intervals_ms.tolist()
    ]
    return min(candidates, key=lambda delays: mean_cost_ms(delays, durations, probe_cost_ms))


def mean_cost_ms(
    delays_ms: tuple[int, ...], durations: OutageDurations, probe_cost_ms: float
) -> float:
    """Returns what an outage costs under these delays, in ms, by the rules of the solver."""
    moments_ms = np.cumsum(np.array(delays_ms, np.float64))
    ends_ms, shares = np.array(durations.durations_ms), np.array(durations.shares)
    failed = np.searchsorted(moments_ms, ends_ms)
    is_covered = failed < len(moments_ms)
    idle_ms = (moments_ms[np.minimum(failed, len(moments_ms) - 1)] - ends_ms) * is_covered
    probes = np.minimum(failed + 1, len(moments_ms))
    endless = (1 - shares.sum()) * len(moments_ms)
    return float(shares @ idle_ms + probe_cost_ms * (shares @ probes + endless))
