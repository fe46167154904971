"""Delays are proposed only where there are outages enough."""

import numpy as np
import pytest

from linear_retry.strategy.tuning.durations import Estimate, estimate
from linear_retry.strategy.tuning.held_out import outage_costs
from linear_retry.strategy.tuning.outages import Numbers, Outages
from linear_retry.strategy.tuning.proposal import (
    TooFew,
    cover_aimed_at,
    cover_known,
    outages_needed,
    propose,
)
from linear_retry.strategy.tuning.solver import Conditions, Unreachable
from tests.strategy.tuning.recorded import durations_ms, recorded

LONG_MS = (1000, *[5000] * 10, *[60_000] * 60, *[3_600_000] * 24)


@pytest.mark.parametrize(("cover", "needed"), [(0.5, 5), (0.95, 59), (0.99, 299), (0.999, 2995)])
def test_how_many_outages_are_needed(cover: float, needed: int) -> None:
    """With one fewer, all of them would last no longer than the share in over 1 case of 20."""
    assert needed == outages_needed(cover)
    assert cover**needed <= 0.05 < cover ** (needed - 1)


def test_no_number_of_outages_is_enough_for_all() -> None:
    """However many have ended, the next may last longer."""
    outages = recorded(durations_ms(2, 40), LONG_MS)
    assert TooFew(40, None, 0.927) == propose(outages, 1000, Conditions(cover=1))


def test_with_too_few_nothing_is_proposed() -> None:
    """It says how many there are, how many it takes, and what could be asked of these."""
    outages = recorded(durations_ms(2, 298), LONG_MS)
    assert TooFew(298, 299, 0.989) == propose(outages, 1000, Conditions(cover=0.99))
    assert TooFew(0, 299, None) == propose(Outages.of([], []), 1000, Conditions(cover=0.99))


@pytest.mark.parametrize("ended", [1, 5, 59, 298, 299, 3000])
def test_the_cover_that_is_offered_can_be_had(ended: int) -> None:
    """What `TooFew` says could be asked is not refused."""
    cover = cover_known(ended)
    assert cover is not None
    needed = outages_needed(cover)
    assert needed is not None
    assert needed <= ended


def test_what_is_proposed_covers_what_was_asked() -> None:
    """Of outages that it has not seen, in 19 cases of 20, no fewer end before the delays do."""
    coming_ms, kept = durations_ms(99, 100_000), 0
    for seed in range(20):
        found = propose(recorded(durations_ms(seed, 200), LONG_MS), 5000, Conditions(cover=0.95))
        assert isinstance(found, tuple)
        kept += float(np.mean(coming_ms <= sum(found))) >= 0.95
    assert kept >= 18


@pytest.mark.parametrize(("count", "cover"), [(59, 0.95), (93, 0.95), (600, 0.98), (9000, 0.999)])
def test_the_cover_aimed_at_is_wilks_limit(count: int, cover: float) -> None:
    """So many or fewer of all outlast it in one case of 20 at most; one more, in more than that."""
    longer = round(count * (1 - cover_aimed_at(count, cover)))
    drawn = np.random.default_rng(1).binomial(count, 1 - cover, 200_000)
    assert np.mean(drawn <= longer) <= 0.052
    assert np.mean(drawn <= longer + 1) >= 0.048


def test_a_margin_that_no_outage_shows_is_not_asked_for() -> None:
    """Of 100 outages two have no end, and one may outlast delays that cover 0.95 surely."""
    outages = recorded(np.append(durations_ms(1, 98), [1e12, 1e12]), LONG_MS)
    assert isinstance(propose(outages, 5000, Conditions(cover=0.95)), tuple)


def test_outages_that_were_given_up_are_not_covered() -> None:
    """Where a strategy ran out in a tenth of them, no delays are known that cover 0.95."""
    true_ms = durations_ms(4, 1000)
    at_ms = np.quantile(true_ms, 0.9)
    found = propose(recorded(true_ms, [int(at_ms / 10)] * 10), 5000, Conditions(cover=0.95))
    assert isinstance(found, Unreachable)
    assert found.covered == pytest.approx(0.9, abs=0.01)


def _costs_of_many(moments_ms: Numbers, known: Estimate, probe_cost_ms: float) -> Numbers:
    """What each row of moments costs: by integrals of the estimate itself, which is not rounded."""
    edges, widths = known.edges_ms, np.diff(known.edges_ms)
    shares = known.shares[:-1]
    ended = np.append(0, np.cumsum(shares))
    sums = np.append(0, np.cumsum(shares * (edges[1:] + edges[:-1]) / 2))
    at = np.hstack([np.zeros((len(moments_ms), 1)), np.minimum(moments_ms, edges[-1])])
    cell = np.clip(np.searchsorted(edges, at, side="right") - 1, 0, len(shares) - 1)
    within = ended[cell] + shares[cell] * (at - edges[cell]) / widths[cell]
    mean = sums[cell] + shares[cell] * (at**2 - edges[cell] ** 2) / 2 / widths[cell]
    idle = (moments_ms * np.diff(within) - np.diff(mean)).sum(axis=1)
    probes = (1 - within[:, :-1]).sum(axis=1)
    found: Numbers = idle + probe_cost_ms * probes
    return found


@pytest.mark.parametrize(
    ("seed", "probe_cost_ms", "limits"),
    [
        (1, 20_000, Conditions(0.95, max_delays=25, shortest_ms=1000)),
        (2, 500, Conditions(0.98, max_delays=12, shortest_ms=20_000)),
        (3, 0, Conditions(0.9, max_delays=6, shortest_ms=500)),
        (4, 90_000, Conditions(0.99, max_delays=40, shortest_ms=5000)),
    ],
)
def test_none_of_ten_thousand_random_strategies_is_better(
    seed: int, probe_cost_ms: float, limits: Conditions
) -> None:
    """On the outages that it was made from, of those that cover as much with as many delays."""
    outages = recorded(durations_ms(seed, 400), LONG_MS, jitter=0.3, seed=seed)
    found = propose(outages, probe_cost_ms, limits)
    assert isinstance(found, tuple)
    known = estimate(outages)
    total_ms = sum(found)
    assert known.within(total_ms) >= limits.cover - 1e-9
    assert len(found) <= limits.max_delays
    assert min(found) >= limits.shortest_ms
    least_ms = min(_random_costs(seed, total_ms, known, probe_cost_ms, limits))
    [cost_ms] = _costs_of_many(np.cumsum([found], axis=1), known, probe_cost_ms)
    costs = outage_costs(found, outages, known).mean(axis=0)
    assert cost_ms == pytest.approx(costs[0] + probe_cost_ms * costs[1], rel=0.01)
    assert cost_ms <= least_ms


def _random_costs(
    seed: int, total_ms: int, known: Estimate, probe_cost_ms: float, limits: Conditions
) -> list[float]:
    """Of 10,000: any number of delays, any growth, and as long as the proposed one, or longer."""
    rng = np.random.default_rng(seed)
    most = min(limits.max_delays, total_ms // limits.shortest_ms)
    costs: list[float] = []
    while len(costs) < 10_000:
        count = int(rng.integers(1, most + 1))
        growth = rng.uniform(-0.2, 0.6, size=(200, 1))
        steps = np.exp(growth * np.arange(count) + rng.normal(0, 0.3, size=(200, count)))
        spare_ms = total_ms * rng.uniform(1, 1.2, size=(200, 1)) - count * limits.shortest_ms
        steps *= np.maximum(spare_ms, 0) / steps.sum(axis=1, keepdims=True)
        moments_ms = np.cumsum(steps + limits.shortest_ms, axis=1)
        costs += _costs_of_many(moments_ms, known, probe_cost_ms).tolist()
    return costs[:10_000]
