"""Finds where the running strategy makes no attempt, and what not knowing more there costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from linear_retry.strategy.tuning.durations import Estimate
from linear_retry.strategy.tuning.outages import Numbers, Outages

_NARROW = 1.25
_FEWEST = 10
_LEAST = 0.15
"""The least cost of a gap that is reported, as a share of what an outage costs: below it, two more
attempts changed nothing for any distribution of `python -m benchmarks tuning-regret`."""


@dataclass(frozen=True, slots=True)
class Gap:
    """`share` of the outages ended between `from_ms` and `until_ms`, where no attempt was made.

    Not knowing when costs up to `cost_ms` per outage, a mean over all of them. Two more attempts,
    `attempts_ms` after the first failure, would tell most of it.
    """

    from_ms: int
    until_ms: int
    share: float
    cost_ms: float
    attempts_ms: tuple[int, int]


def costliest_gap(
    outages: Outages,
    known: Estimate,
    probe_cost_ms: float,
    outage_cost_ms: float = 0.0,
    *,
    shortest_ms: int,
) -> Gap | None:
    """Returns the gap that costs most, if it costs much beside an outage and beside an attempt.

    Of ten outages or more, only gaps wider than a quarter of the time before them count, with room
    for two attempts. An end
    that may be anywhere in a gap of width w is found cheapest by attempts sqrt(w * price) apart:
    that costs sqrt(w * price) + price / 2; one attempt at an end that is known costs the price.
    """
    finite_ms = outages.upper_ms[np.isfinite(outages.upper_ms)]
    bounds_ms = np.unique(np.concatenate([[0.0], outages.lower_ms, finite_ms]))
    shares, widths_ms = np.diff(known.within(bounds_ms)), np.diff(bounds_ms)
    is_wide = widths_ms >= np.maximum(3 * shortest_ms, (_NARROW - 1) * bounds_ms[:-1])
    if len(outages) < _FEWEST:
        return None
    costs_ms = shares * is_wide * _not_knowing_ms(widths_ms, max(probe_cost_ms, shortest_ms))
    if costs_ms.max(initial=0) < _LEAST * max(outage_cost_ms, probe_cost_ms, shortest_ms):
        return None
    most = int(costs_ms.argmax())
    from_ms, until_ms = int(bounds_ms[most]), int(bounds_ms[most + 1])
    return Gap(
        from_ms,
        until_ms,
        float(shares[most]),
        float(costs_ms[most]),
        _attempts_ms(from_ms, until_ms, shortest_ms),
    )


def with_attempts(delays_ms: Sequence[int], gap: Gap) -> tuple[int, ...]:
    """Returns these delays with the two attempts of the gap: a strategy to learn by."""
    moments_ms = {*np.cumsum(delays_ms).tolist(), *gap.attempts_ms}
    return tuple(np.diff([0, *sorted(moments_ms)]).tolist())


def _not_knowing_ms(widths_ms: Numbers, price_ms: float) -> Numbers:
    # In a gap narrower than the price, one attempt at its end is cheapest.
    searched_ms = np.sqrt(widths_ms * price_ms) - price_ms / 2
    return np.where(widths_ms < price_ms, widths_ms / 2, searched_ms)


def _attempts_ms(from_ms: int, until_ms: int, shortest_ms: int) -> tuple[int, int]:
    """Thirds of the gap: in proportion, as an estimate is as rough for hours as for seconds."""
    growth = float(until_ms / from_ms) ** (1 / 3) if from_ms else 0.0
    thirds_ms = [from_ms * growth**each if from_ms else until_ms * each / 3 for each in (1, 2)]
    first_ms, second_ms = (round(each / shortest_ms) * shortest_ms for each in thirds_ms)
    first_ms = min(max(first_ms, from_ms + shortest_ms), until_ms - 2 * shortest_ms)
    return first_ms, min(max(second_ms, first_ms + shortest_ms), until_ms - shortest_ms)
