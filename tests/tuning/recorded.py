"""Outages of known lengths, as a consumer with some strategy would have recorded them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from linear_retry.tuning.outages import Numbers, Outages


def lengths_ms(seed: int, count: int, median_s: float = 60, spread: float = 1.5) -> Numbers:
    """Log-normal, in whole milliseconds."""
    normal = np.random.default_rng(seed).normal(np.log(1000 * median_s), spread, count)
    return np.ceil(np.exp(normal))


def recorded(
    lengths: Numbers, delays_ms: Sequence[int], jitter: float = 0, seed: int = 0
) -> Outages:
    """What the probes of each outage say of its length; given up: no end."""
    dice = np.random.default_rng(seed)
    waits = np.array(delays_ms) * (1 + jitter * dice.random((len(lengths), len(delays_ms))))
    zeros, ends = np.zeros((len(lengths), 1)), np.full((len(lengths), 1), np.inf)
    moments = np.hstack([zeros, np.round(np.cumsum(waits, axis=1)), ends])
    failed = (moments < lengths[:, None]).sum(axis=1)
    rows = np.arange(len(lengths))
    return Outages.of(moments[rows, failed - 1], moments[rows, failed])
