"""Measures what delays cost beside the best ones for five distributions of outages that are known.

Those that come with the package, by themselves; and those that are proposed from 300 outages, which
two of these have recorded. The proposal is made once more from 300 later ones, recorded with the
two attempts that the first proposal asks for. All are scored on 200,000 other outages, beside the
solver's best array for these, and beside the best fixed interval, at the coverage that they have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from benchmarks.figures import Figure, Result, Target
from benchmarks.scale import Scale
from benchmarks.tuning_optimum import Cost
from linear_retry import Strategy
from linear_retry.strategy.tuning.durations import estimate
from linear_retry.strategy.tuning.fixed import cheapest_fixed
from linear_retry.strategy.tuning.gaps import costliest_gap, with_attempts
from linear_retry.strategy.tuning.outages import Numbers, Outages
from linear_retry.strategy.tuning.proposal import propose
from linear_retry.strategy.tuning.solver import Conditions, OutageDurations, solve
from tests.real_kafka import RealKafka
from tests.strategy.tuning.recorded import recorded

_Law = Callable[[np.random.Generator, int], Numbers]

_PRICE_MS = 5000.0
_ASKED = Conditions(cover=0.95, shortest_ms=1000)
_RECORDED, _SCORED, _EACH = 300, 200_000, 100
_RECORDERS = ("short-outage", "rate-limited")
READY = (*_RECORDERS, "exponential", "overnight", "strict-ledger")
"""Those of the package that outlast 95 % of the outages of every law."""


def _two_kinds(rng: np.random.Generator, count: int) -> Numbers:
    near_s = np.where(rng.random(count) < 0.8, 5.0, 1200.0)
    return near_s * np.exp(0.2 * rng.normal(size=count))


LAWS: dict[str, _Law] = {
    "log-normal, median 4 s": lambda rng, count: 4 * np.exp(0.8 * rng.normal(size=count)),
    "four near 5 s, one near 20 min": _two_kinds,
    "Pareto 1.1 from 2 s": lambda rng, count: 2 * (1 - rng.random(count)) ** (-1 / 1.1),
    "Weibull 0.6 of 120 s": lambda rng, count: 120 * rng.weibull(0.6, count),
    "exponential, 60 s": lambda rng, count: rng.exponential(60.0, count),
}
"""Durations in seconds."""


@dataclass(frozen=True, slots=True)
class Regret:
    """In per cent: the cost over the best array's, and over the best fixed interval's."""

    over: float
    over_fixed: float


class Score:
    """The outages of one law that all delays are scored on, and the best delays for them."""

    def __init__(self, name: str, seed: int) -> None:
        self._ends_ms = np.sort(1000 * LAWS[name](np.random.default_rng(10_000 + seed), _SCORED))
        every = self._ends_ms[_EACH // 2 :: _EACH]
        self._known = 1 - 1 / len(every)
        weights = [(int(np.ceil(end_ms)), 1 / len(every)) for end_ms in every]
        self._durations = OutageDurations.of(weights, rounded_to_ms=_ASKED.shortest_ms)
        self._best = cache(self._best_costs_ms)

    def regret(self, delays_ms: Sequence[float]) -> Regret:
        found = Cost.of(np.asarray(delays_ms), self._ends_ms)
        best_ms, fixed_ms = self._best(round(found.covered, 3))
        cost_ms = found.total_ms(_PRICE_MS)
        return Regret(100 * (cost_ms / best_ms - 1), 100 * (cost_ms / fixed_ms - 1))

    def _best_costs_ms(self, cover: float) -> tuple[float, float]:
        asked = Conditions(min(cover, self._known), max_delays=1000, shortest_ms=1000)
        best = solve(self._durations, _PRICE_MS, asked)
        fixed = cheapest_fixed(self._durations, _PRICE_MS, asked)
        assert isinstance(best, tuple), best
        assert fixed is not None
        costs = (Cost.of(each, self._ends_ms) for each in (best, fixed))
        return tuple(each.total_ms(_PRICE_MS) for each in costs)  # type: ignore[return-value]  # two


def run(_: RealKafka, scale: Scale) -> Result:
    """One value for each seed."""
    return Result(
        tuple(_figures(scale.rounds)),
        notes=(
            "over: idle time and attempts, relative to the best array with the same coverage; an "
            "attempt costs 5 s, and 95 % of all outages are to be outlasted",
            "over fixed: the same, relative to the fixed interval that is best for the outages "
            "scored on, which nobody knows before",
        ),
    )


def _figures(rounds: int) -> Iterator[Figure]:
    scores = {name: [Score(name, seed) for seed in range(rounds)] for name in LAWS}
    for ready in READY:
        strategy = Strategy.named(ready)
        mean_ms = strategy.reached_ms(1 + strategy.jitter / 2)
        for name, each in scores.items():
            over = tuple(score.regret(mean_ms).over for score in each)
            yield Figure(f"{ready}, {name}: over", "%", over)
    for recorder in _RECORDERS:
        for name, each in scores.items():
            pairs = [learnt(name, recorder, seed, score) for seed, score in enumerate(each)]
            yield from _figures_of(f"tuned from {recorder}, {name}", pairs)


def _figures_of(name: str, pairs: Sequence[tuple[Regret, Regret]]) -> Iterator[Figure]:
    first, second = zip(*pairs, strict=True)
    yield Figure(f"{name}: over", "%", tuple(each.over for each in first))
    fixed = tuple(each.over_fixed for each in first)
    yield Figure(f"{name}: over fixed", "%", fixed, Target("at most", 5.0))
    later = tuple(each.over for each in second)
    yield Figure(f"{name}, two more attempts: over", "%", later, Target("at most", 15.0))
    fixed = tuple(each.over_fixed for each in second)
    yield Figure(f"{name}, two more attempts: over fixed", "%", fixed, Target("at most", 2.0))


def learnt(name: str, recorder: str, seed: int, score: Score) -> tuple[Regret, Regret]:
    """The proposal from what the recorder saw; and from what it sees with two more attempts."""
    strategy, rng = Strategy.named(recorder), np.random.default_rng(seed)

    def seen(delays_ms: Sequence[int]) -> Outages:
        true_ms = np.ceil(1000 * LAWS[name](rng, _RECORDED))
        return recorded(true_ms, delays_ms, strategy.jitter, seed)

    outages = seen(strategy.delays_ms)
    first = _proposed(outages)
    gap = costliest_gap(outages, estimate(outages), _PRICE_MS, shortest_ms=_ASKED.shortest_ms)
    if gap is None:
        return score.regret(first), score.regret(first)
    later = seen(with_attempts(strategy.delays_ms, gap))
    return score.regret(first), score.regret(_proposed(later))


def _proposed(outages: Outages) -> tuple[int, ...]:
    found = propose(outages, _PRICE_MS, _ASKED)
    assert isinstance(found, tuple), found
    return found
