"""The solver's array of delays is the cheapest that meets the conditions."""

import random
from itertools import combinations, product
from math import fsum, inf, nan

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.fleet.costs import cost
from linear_retry import Strategy
from linear_retry.errors import UsageError
from linear_retry.retry.decision import Policy
from linear_retry.strategy.simulation import Recovered, Simulator
from linear_retry.strategy.tuning.solver import Conditions, OutageDurations, Unreachable, solve
from tests.strategy.tuning.recorded import share_within

DAY_MS = 24 * 3_600_000


@st.composite
def distributions(draw: st.DrawFn, longest_ms: int, most: int = 8) -> OutageDurations:
    durations = sorted(draw(st.sets(st.integers(1, longest_ms), min_size=1, max_size=most)))
    weights = [draw(st.integers(1, 20)) for _ in durations]
    whole = sum(weights) + draw(st.sampled_from([0, 0, 1, 30]))
    return OutageDurations(tuple(durations), tuple(weight / whole for weight in weights))


conditions = st.builds(
    Conditions,
    cover=st.sampled_from([0.3, 0.5, 0.9, 0.999, 1.0]),
    max_delays=st.integers(1, 6),
    shortest_ms=st.integers(1, 5),
)
probe_costs_ms = st.sampled_from([0.0, 0.1, 1.0, 3.0, 50.0]) | st.floats(0, 20)


def _every_array(limits: Conditions, until_ms: int) -> list[tuple[int, ...]]:
    """Every one that ends no later than `until_ms`, whatever the durations are."""
    found = []
    for count in range(1, limits.max_delays + 1):
        for moments in combinations(range(1, until_ms + 1), count):
            delays = tuple(b - a for a, b in zip((0, *moments), moments, strict=False))
            if min(delays) >= limits.shortest_ms:
                found.append(delays)
    return found


def _solved(found: tuple[int, ...] | Unreachable) -> tuple[int, ...]:
    assert isinstance(found, tuple)
    return found


@settings(max_examples=60, deadline=None)
@given(distributions(longest_ms=9, most=6), probe_costs_ms, conditions)
def test_no_array_at_all_is_cheaper(
    durations: OutageDurations, probe_cost_ms: float, limits: Conditions
) -> None:
    """Of all arrays of whole milliseconds that keep the conditions, none costs less."""
    arrays = _every_array(limits, until_ms=13)
    costs = [cost(delays, durations) for delays in arrays]
    kept = [c.total_ms(probe_cost_ms) for c in costs if c.covered >= limits.cover - 1e-9]
    found = solve(durations, probe_cost_ms, limits)
    if isinstance(found, Unreachable):
        assert [] == kept
        assert share_within(durations, 9) == pytest.approx(found.covered)
    else:
        assert min(kept) == pytest.approx(cost(found, durations).total_ms(probe_cost_ms))
        assert found in arrays
        assert cost(found, durations).covered >= limits.cover - 1e-9


def _costs_of_many(
    moments_ms: npt.NDArray[np.int64], durations: OutageDurations, probe_cost_ms: float
) -> npt.NDArray[np.float64]:
    """What each row of moments costs, computed in another way than the solver's."""
    total: npt.NDArray[np.float64] = np.zeros(len(moments_ms))
    beyond = 1 - fsum(durations.shares)
    for duration_ms, share in zip(durations.durations_ms, durations.shares, strict=True):
        failed = (moments_ms < duration_ms).sum(axis=1)
        ends = failed < moments_ms.shape[1]
        at_ms = np.where(ends, moments_ms[np.arange(len(moments_ms)), failed * ends], duration_ms)
        total += share * (at_ms - duration_ms + probe_cost_ms * (failed + ends))
    total += beyond * probe_cost_ms * moments_ms.shape[1]
    return total


@pytest.mark.parametrize("seed", range(4))
def test_none_of_ten_thousand_random_arrays_is_cheaper(seed: int) -> None:
    """Of random arrays that cover as much, of any number of delays and any growth, none is."""
    rng = np.random.default_rng(seed)
    outages_ms = np.ceil(1000 * np.exp(rng.normal(4, 1.5, 1500))).astype(int)
    weights = [(int(duration), 1 / 1500) for duration in outages_ms if duration <= DAY_MS]
    durations = OutageDurations.of(weights, rounded_to_ms=1000)
    limits = Conditions(cover=0.99, max_delays=25, shortest_ms=1000)
    probe_cost_ms = float(rng.choice([100, 2000, 30_000]))
    found = _solved(solve(durations, probe_cost_ms, limits))
    assert cost(found, durations).covered >= 0.99 - 1e-9
    reach_ms = sum(found)
    best, tried = inf, 0
    for count in range(1, 26):
        growth = rng.uniform(-0.2, 0.6, size=(400, 1))
        steps = np.exp(growth * np.arange(count) + rng.normal(0, 0.3, size=(400, count)))
        steps *= reach_ms * rng.uniform(1, 1.2, size=(400, 1)) / steps.sum(axis=1, keepdims=True)
        moments_ms = np.cumsum(np.maximum(np.ceil(steps), 1000), axis=1).astype(np.int64)
        best = min(best, _costs_of_many(moments_ms, durations, probe_cost_ms).min())
        tried += len(moments_ms)
    assert tried == 10_000
    assert cost(found, durations).total_ms(probe_cost_ms) <= best


@settings(deadline=None)
@given(distributions(longest_ms=400, most=30), st.floats(0, 50), st.floats(0, 50), conditions)
def test_dearer_probes_are_not_more_probes(
    durations: OutageDurations, one_ms: float, other_ms: float, limits: Conditions
) -> None:
    """The dearer a probe, the fewer there are in the mean, and the longer is waited."""
    low, high = (solve(durations, ms, limits) for ms in sorted((one_ms, other_ms)))
    if isinstance(low, Unreachable) or isinstance(high, Unreachable):
        assert low == high
        return
    few, many = cost(high, durations), cost(low, durations)
    assert few.probes <= many.probes + 1e-6 or one_ms == other_ms
    assert few.idle_ms >= many.idle_ms - 1e-6 or one_ms == other_ms


@settings(deadline=None)
@given(distributions(longest_ms=400, most=30), probe_costs_ms, conditions)
def test_what_is_proposed_is_a_strategy(
    durations: OutageDurations, probe_cost_ms: float, limits: Conditions
) -> None:
    """It has as many delays as allowed at most, none too short, and does what the cost says."""
    found = solve(durations, probe_cost_ms, limits)
    if isinstance(found, Unreachable):
        return
    strategy = Strategy([f"{delay_ms}ms" for delay_ms in found])
    assert found == strategy.delays_ms
    assert len(strategy) <= limits.max_delays
    assert min(found) >= limits.shortest_ms
    assert _simulated(strategy, durations) == pytest.approx(cost(found, durations).idle_ms)


def _simulated(strategy: Strategy, durations: OutageDurations) -> float:
    simulator = Simulator(Policy(strategy, "dead-letter"))
    endings = [simulator.through(duration_ms).ending for duration_ms in durations.durations_ms]
    return sum(
        share * ending.idle_ms
        for share, ending in zip(durations.shares, endings, strict=True)
        if isinstance(ending, Recovered)
    )


def test_free_probes_wait_for_nothing() -> None:
    """With a probe cost of 0 and delays enough, each duration has its probe."""
    durations = OutageDurations((10, 25, 70), (0.5, 0.3, 0.2))
    found = _solved(solve(durations, 0, Conditions(cover=1, shortest_ms=1)))
    assert (10, 15, 45) == found
    assert (0.0, 1.0) == (cost(found, durations).idle_ms, cost(found, durations).covered)
    assert cost(found, durations).probes == pytest.approx(1.7)


def test_dear_probes_are_one() -> None:
    """With a probe cost above all durations there is one probe, at the duration to be covered."""
    durations = OutageDurations((10, 25, 70, 9000), (0.5, 0.3, 0.1991, 0.0009))
    assert (70,) == solve(durations, 1e6, Conditions(shortest_ms=1))


def test_lengths_below_the_shortest_delay_have_the_first_probe() -> None:
    """No probe comes before the shortest delay, however short the outages."""
    durations = OutageDurations((1, 2), (0.5, 0.5))
    assert (1000,) == solve(durations, 0, Conditions(shortest_ms=1000))


def test_a_wish_that_no_array_can_keep() -> None:
    """Where more outages have no known end than may, the share that can be covered is told."""
    durations = OutageDurations((1000,), (0.75,))
    assert Unreachable(0.75) == solve(durations, 0, Conditions(cover=0.9))
    assert Unreachable(0.0) == solve(OutageDurations((), ()), 0, Conditions(cover=1e-12))


def test_no_delay_of_a_large_solution_can_be_moved() -> None:
    """For two thousand durations too: no probe a second earlier or later makes it cheaper."""
    rng = random.Random(5)
    weights = [(round(1000 * rng.lognormvariate(5, 2)), 1 / 2000) for _ in range(2000)]
    durations = OutageDurations.of(weights, rounded_to_ms=1000)
    found = _solved(solve(durations, 20_000, Conditions(cover=0.98, max_delays=12)))
    least = cost(found, durations)
    for index, by_ms in product(range(len(found)), (-1000, 1000)):
        moved = list(found)
        moved[index] += by_ms
        moved[index + 1 : index + 2] = [step - by_ms for step in moved[index + 1 : index + 2]]
        known = cost(moved, durations)
        keeps = min(moved) >= 1000 and known.covered >= 0.98 - 1e-9
        assert not keeps or known.total_ms(20_000) >= least.total_ms(20_000) - 1e-6


def test_lengths_are_rounded_up_and_added_up() -> None:
    """A promise for the rounded durations holds for the given ones too."""
    durations = OutageDurations.of([(1, 0.2), (1000, 0.1), (1001, 0.3), (8 * DAY_MS, 0.4)])
    assert ((1, 1000, 1001), (0.2, 0.1, 0.3)) == (durations.durations_ms, durations.shares)
    rounded = OutageDurations.of([(1001, 0.3), (1, 0.25), (1000, 0.25)], rounded_to_ms=1000)
    assert OutageDurations((1000, 2000), (0.5, 0.3)) == rounded
    assert 0.5 == share_within(rounded, 1999)


@pytest.mark.parametrize("key", ["cover", "max_delays", "shortest_ms"])
@pytest.mark.parametrize("value", [0, -1, 10**9, nan])
def test_what_cannot_be_asked_is_refused(key: str, value: float) -> None:
    """Each condition has its range, and the error its name and value."""
    with pytest.raises(UsageError, match=f"{key}={value}: "):
        Conditions(**{key: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("probe_cost_ms", [-1.0, nan, inf])
def test_a_probe_costs_a_number(probe_cost_ms: float) -> None:
    """A negative cost would be a reward for probes, and an endless one compares with nothing."""
    with pytest.raises(UsageError, match="probe_cost_ms="):
        solve(OutageDurations((1,), (1.0,)), probe_cost_ms, Conditions())
