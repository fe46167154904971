"""Outages of known durations, as a consumer with some strategy would have recorded them."""

from collections.abc import Sequence

import numpy as np

from linear_retry.strategy.tuning.outages import Numbers, Outages
from linear_retry.strategy.tuning.solver import OutageDurations


def durations_ms(seed: int, count: int, median_s: float = 60, spread: float = 1.5) -> Numbers:
    """Log-normal, in whole milliseconds."""
    normal = np.random.default_rng(seed).normal(np.log(1000 * median_s), spread, count)
    return np.ceil(np.exp(normal))


def recorded(
    durations: Numbers, delays_ms: Sequence[int], jitter: float = 0, seed: int = 0
) -> Outages:
    """What the probes of each outage say of its duration; given up: no end."""
    rng = np.random.default_rng(seed)
    waits = np.array(delays_ms) * (1 + jitter * rng.random((len(durations), len(delays_ms))))
    zeros, ends = np.zeros((len(durations), 1)), np.full((len(durations), 1), np.inf)
    moments = np.hstack([zeros, np.round(np.cumsum(waits, axis=1)), ends])
    failed = (moments < durations[:, None]).sum(axis=1)
    rows = np.arange(len(durations))
    return Outages.of(moments[rows, failed - 1], moments[rows, failed])


def share_within(durations: OutageDurations, moment_ms: float) -> float:
    """The share of outages that last no longer than this."""
    both = zip(durations.durations_ms, durations.shares, strict=True)
    return sum(share for duration_ms, share in both if duration_ms <= moment_ms)
