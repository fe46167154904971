"""A fixed interval is what other delays must be clearly cheaper than."""

import numpy as np

from linear_retry.strategy.tuning.fixed import cheapest_fixed, mean_cost_ms
from linear_retry.strategy.tuning.proposal import propose, propose_fixed
from linear_retry.strategy.tuning.solver import Conditions, OutageDurations, solve
from tests.strategy.tuning.recorded import durations_ms, recorded

EVERY_SECOND = (1000,) * 900
DOUBLING = tuple(min(1000 * 2**number, 60_000) for number in range(40))
CONDITIONS = Conditions(cover=0.95)


def test_of_all_fixed_intervals_it_is_the_cheapest() -> None:
    """That outlast as much, with as many delays as are allowed and none shorter than allowed."""
    rng = np.random.default_rng(1)
    weights = [(int(end_ms), 0.01) for end_ms in rng.exponential(60_000, 100)]
    durations, asked = OutageDurations.of(weights, rounded_to_ms=1000), Conditions(0.9, 12, 1000)
    found = cheapest_fixed(durations, 5000, asked)
    assert found is not None
    reach_ms = sorted(end_ms for end_ms, _ in weights)[89]
    others = (
        (each_ms,) * count
        for each_ms in range(1000, reach_ms, 1000)
        for count in range(1, 13)
        if each_ms * count >= reach_ms
    )
    cost_ms = mean_cost_ms(found, durations, 5000)
    assert (len({*found}), True, True) == (1, len(found) <= 12, sum(found) >= reach_ms)
    assert all(cost_ms <= 1.005 * mean_cost_ms(each, durations, 5000) for each in others)
    best = solve(durations, 5000, asked)
    assert isinstance(best, tuple)
    assert mean_cost_ms(best, durations, 5000) <= cost_ms


def test_where_too_few_end_there_is_none() -> None:
    """As the solver finds no delays then."""
    assert cheapest_fixed(OutageDurations.of([(1000, 0.5)]), 5000, CONDITIONS) is None


def test_where_it_costs_hardly_more_it_is_proposed() -> None:
    """Outages without a memory: the bug was that the solver's delays followed each bump of the
    recorded ones, and cost more than a fixed interval in outages to come in most cases."""
    rng, found = np.random.default_rng(1), 0
    for _ in range(8):
        outages = recorded(np.ceil(rng.exponential(60_000, 100)), DOUBLING, jitter=0.3)
        found += propose(outages, 5000, CONDITIONS) == propose_fixed(outages, 5000, CONDITIONS)
    assert found >= 6


def test_where_other_delays_are_clearly_cheaper_they_are_proposed() -> None:
    """Most outages end within seconds, and some last long."""
    outages = recorded(durations_ms(1, 300, median_s=20, spread=1.5), EVERY_SECOND)
    found, fixed = propose(outages, 5000, CONDITIONS), propose_fixed(outages, 5000, CONDITIONS)
    assert isinstance(found, tuple)
    assert fixed is not None
    assert len({*found}) > 1
    assert sum(fixed) >= 0.99 * sum(found)
