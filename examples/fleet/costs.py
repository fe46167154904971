"""What delays cost in outages whose durations are known."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import fsum

from linear_retry.strategy.tuning.solver import OutageDurations


@dataclass(frozen=True, slots=True)
class Cost:
    """The mean cost of an outage, and the share of outages that end before the array does."""

    idle_ms: float
    probes: float
    covered: float

    def total_ms(self, probe_cost_ms: float) -> float:
        return self.idle_ms + probe_cost_ms * self.probes


def cost(delays_ms: Sequence[int], durations: OutageDurations) -> Cost:
    """The cost of these delays for these outages."""
    moments_ms = list(accumulate(delays_ms))
    idle_ms, probes, covered = [0.0], [0.0], [0.0]
    for duration_ms, share in zip(durations.durations_ms, durations.shares, strict=True):
        index = bisect_left(moments_ms, duration_ms)
        probes.append(share * min(index + 1, len(moments_ms)))
        if index < len(moments_ms):
            idle_ms.append(share * (moments_ms[index] - duration_ms))
            covered.append(share)
    beyond = max(0.0, 1 - fsum(durations.shares))
    return Cost(fsum(idle_ms), fsum([*probes, beyond * len(moments_ms)]), fsum(covered))
