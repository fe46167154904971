"""Compares the time that lifelines' estimator takes with that of ours.

    python -m tests.strategy.tuning.beside_lifelines 100 500

Seconds of this process's CPU, for so many outages whose bounds are all different, as jitter makes
them; and by how much the two distribution functions differ at most, at the strategy's probes.
"""

import sys
import time

import numpy as np
from lifelines.fitters.npmle import npmle  # type: ignore[import-untyped]

from linear_retry.strategy.tuning.durations import estimate
from linear_retry.strategy.tuning.outages import Numbers, Outages
from tests.strategy.tuning.recorded import durations_ms, recorded

DELAYS_MS = (1000, 5000, 10_000, 30_000, 60_000, 300_000, 600_000, 3_600_000)


def of_lifelines(outages: Outages, moments_ms: Numbers) -> tuple[Numbers, Numbers]:
    """Between what bounds the share of outages that have ended by each moment lies.

    Its intervals say how much ended in them, not where; and they hold their left ends.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # its issue 1151: one interval only
        shares, intervals = npmle(outages.lower_ms + 1, outages.upper_ms)
    shares = np.array(shares) / np.sum(shares)
    left = np.array([each.left for each in intervals])
    right = np.array([each.right for each in intervals])
    low = np.array([shares[right <= at_ms].sum() for at_ms in moments_ms])
    high = np.array([shares[left <= at_ms].sum() for at_ms in moments_ms])
    return low, high


def main(counts: list[int]) -> None:
    """A line for each count."""
    moments_ms = np.cumsum(DELAYS_MS).astype(np.float64)
    for count in counts:
        outages = recorded(durations_ms(1, count), DELAYS_MS, jitter=0.5)
        begun_s = time.process_time()
        known = estimate(outages)
        ours_s = time.process_time() - begun_s
        low, high = of_lifelines(outages, moments_ms)
        theirs_s = time.process_time() - begun_s - ours_s
        ours = known.within(moments_ms)
        apart = np.maximum(np.maximum(low - ours, ours - high), 0).max()
        print(f"{count} outages: ours {ours_s:.2f} s, lifelines {theirs_s:.1f} s", flush=True)
        print(f"  apart by {apart:.3f} at most", flush=True)


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]])
