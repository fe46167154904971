"""Compares tuned delays with the best ones for distributions of outages that are known.

A running strategy records outages of a known distribution, with and without jitter; the delays are
proposed from what it has recorded, and cost what they cost in the distribution itself. The best
array is the solver's for that distribution, at the coverage that the proposal really has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from statistics import NormalDist

import numpy as np

from benchmarks.figures import Figure, Result, Target
from benchmarks.scale import Scale
from linear_retry.strategy.tuning.outages import Numbers, Outages
from linear_retry.strategy.tuning.proposal import propose
from linear_retry.strategy.tuning.solver import Conditions, OutageDurations, solve
from tests.real_kafka import RealKafka
from tests.strategy.tuning.recorded import recorded

_SHARES = (np.arange(20_000) + 0.5) / 20_000
_SHORTEST_MS = 1000
_EACH = 20
"""The solver takes each twentieth duration."""


def _lognormal(median_s: float, spread: float, shares: Numbers = _SHARES) -> Numbers:
    normal = np.array([NormalDist().inv_cdf(share) for share in shares])
    return median_s * np.exp(spread * normal)


LAWS: dict[str, Callable[[], Numbers]] = {
    "blips": partial(_lognormal, 5, 1.2),
    "blips and restarts of a host": lambda: np.sort(
        np.concatenate([_lognormal(8, 0.5, _SHARES[::2]), _lognormal(900, 0.4, _SHARES[::5])])
    ),
    "Pareto 1.1": lambda: 10 * (1 - _SHARES) ** (-1 / 1.1),
    "Weibull 0.5": lambda: 60 * np.log(1 - _SHARES) ** 2,
    "90 s and an exponential rest": lambda: 90 - 60 * np.log(1 - _SHARES),
}
"""Durations in seconds, equally likely and ascending."""

_DOUBLING = tuple(min(1000 * 2**number, 300_000) for number in range(400))
_STEADY = (*(10_000,) * 30, *(300_000,) * 24, *(3_600_000,) * 60)
_README = (1000, 5000, 30_000, *(300_000,) * 600)
_HIDING = "90 s and an exponential rest"
"""From 36 s to 336 s, the strategy of the README makes no attempt: most of these end there."""


@dataclass(frozen=True, slots=True)
class Amount:
    """So many outages, the share to cover, and the promise for the cost over the best array's."""

    outages: int
    cover: float
    over: float


_AMOUNTS = (Amount(2000, 0.99, 15.0), Amount(200, 0.95, 25.0))


@dataclass(frozen=True, slots=True)
class Cost:
    """The mean cost of an outage, and the share of outages that end before the array does."""

    idle_ms: float
    probes: float
    covered: float

    @classmethod
    def of(cls, delays_ms: Sequence[int] | Numbers, law_ms: Numbers) -> Cost:
        """Computes it for durations that are equally likely."""
        moments = np.cumsum(np.asarray(delays_ms, np.float64))
        failed = np.searchsorted(moments, law_ms)
        is_covered = failed < len(moments)
        idle_ms = moments[np.minimum(failed, len(moments) - 1)] - law_ms
        probes = np.minimum(failed + 1, len(moments))
        return cls(float(np.mean(idle_ms * is_covered)), float(probes.mean()), is_covered.mean())

    def total_ms(self, price_ms: float) -> float:
        return self.idle_ms + price_ms * self.probes


@dataclass(frozen=True, slots=True)
class Tuned:
    """In per cent: the cost over the best array's, the idle time over a fixed interval's.

    And the share by which it misses the cover that was asked for, or 0.
    """

    over: float
    over_fixed: float
    missed: float


def run(_: RealKafka, scale: Scale) -> Result:
    """One value for each seed: the worst of two running strategies, two jitters, two prices."""
    return Result(
        tuple(_figures(scale.rounds)),
        notes=(
            "over: idle time and attempts, in outages of the true distribution, relative to the "
            "best array with the same coverage; an attempt costs 1 s or 20 s",
            "over fixed: the idle time, relative to the best fixed interval that makes as many "
            "attempts; below 0 is better",
        ),
    )


def _figures(rounds: int) -> Iterator[Figure]:
    for amount, name in product(_AMOUNTS, LAWS):
        worst = [_worst(name, amount, (_DOUBLING, _STEADY), seed) for seed in range(rounds)]
        yield from _figures_of(f"{name}, {amount.outages:,} outages", worst, amount.over)
    hidden = [_worst(_HIDING, _AMOUNTS[0], (_README,), seed) for seed in range(rounds)]
    yield from _figures_of("the last, hidden in a gap, 2,000 outages", hidden, None)


def _figures_of(name: str, worst: list[list[Tuned]], over: float | None) -> Iterator[Figure]:
    def figure(what: str, of: Callable[[Tuned], float], target: Target | None) -> Figure:
        return Figure(f"{name}: {what}", "%", tuple(max(map(of, each)) for each in worst), target)

    yield figure("over", lambda each: each.over, None if over is None else Target("at most", over))
    yield figure("over fixed", lambda each: each.over_fixed, Target("at most", 0.1))
    yield figure("cover missed by", lambda each: each.missed, None)


def _worst(name: str, amount: Amount, running: Sequence[Sequence[int]], seed: int) -> list[Tuned]:
    law_ms = 1000 * LAWS[name]()
    true_ms = np.ceil(np.random.default_rng(seed).choice(law_ms, amount.outages))
    return [
        tuned(law_ms, recorded(true_ms, each, jitter, seed), amount, price_ms)
        for each, jitter, price_ms in product(running, (0.0, 0.3), (1000.0, 20_000.0))
    ]


def tuned(law_ms: Numbers, outages: Outages, amount: Amount, price_ms: float) -> Tuned:
    """Proposes delays, and compares their cost in outages of the distribution itself."""
    conditions = Conditions(cover=amount.cover, shortest_ms=_SHORTEST_MS)
    proposal = propose(outages, price_ms, conditions)
    assert isinstance(proposal, tuple), proposal
    found = Cost.of(proposal, law_ms)
    best = Cost.of(_best(law_ms, price_ms, found.covered), law_ms)
    fixed = _best_fixed(law_ms, found)
    return Tuned(
        100 * (found.total_ms(price_ms) / best.total_ms(price_ms) - 1),
        100 * (found.idle_ms / fixed.idle_ms - 1),
        100 * max(0.0, amount.cover - found.covered),
    )


def _best(law_ms: Numbers, price_ms: float, cover: float) -> tuple[int, ...]:
    every = law_ms[_EACH // 2 :: _EACH]
    weights = [(int(np.ceil(duration_ms)), 1 / len(every)) for duration_ms in every]
    durations = OutageDurations.of(weights, rounded_to_ms=_SHORTEST_MS)
    known = min(cover, 1 - 1 / len(every))
    best = solve(durations, price_ms, Conditions(cover=known, shortest_ms=_SHORTEST_MS))
    assert isinstance(best, tuple), best
    return best


def _best_fixed(law_ms: Numbers, found: Cost) -> Cost:
    """Returns the cost of the interval that makes as many attempts, and covers as much."""
    last_ms = law_ms[max(0, round(found.covered * len(law_ms)) - 1)]
    shortest_ms, longest_ms = 1.0, float(last_ms)
    for _ in range(40):
        middle_ms = float(np.sqrt(shortest_ms * longest_ms))
        cost = Cost.of(np.full(int(np.ceil(last_ms / middle_ms)), middle_ms), law_ms)
        if cost.probes > found.probes:
            shortest_ms = middle_ms
        else:
            longest_ms = middle_ms
    return cost
