"""The model of a fleet: its services, and when the dependency of each is down.

- A week has seven days, however long a day is: the real part of the fleet lives in days of
  seconds, with the same rates for a day.
- Outages of a dependency arrive as a Poisson process whose rate swings with the time of day, by 60
  per cent, highest at 15:00. One that would begin before the last has ended is left out.
- The duration of an outage is a mixture of blips (lognormal) and of failures that somebody repairs
  (Weibull, with a shape below 1: the longer it has lasted, the longer it still will).

Everything random comes from a seed, and each service has a generator of its own.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from linear_retry.scope import ScopeKind
from linear_retry.strategy.strategy import Strategy

DAYS = 7
_SWING = 0.6
_BUSIEST = 15 / 24

_SHORT = Strategy([1, 5, "30s", {"every": "5m", "times": 2}, "1h"], name="short-outage")
_MINUTES = Strategy([1, 2, 5, 10, {"every": "30s", "times": 40}], name="half-minutes")
_PATIENT = Strategy([5, "30s", "1m", {"every": "5m", "times": 60}], name="patient")
_QUICK = Strategy([0.1, 0.2, 0.4, {"every": 0.5, "times": 60}], name="quick")


@dataclass(frozen=True, slots=True)
class OutageDurations:
    """The distribution of outages' durations: a share of blips around a median, the rest longer."""

    blip_share: float
    median_s: float
    sigma: float
    scale_s: float
    shape: float

    def sample_ms(self, rng: Random) -> int:
        """One duration, of a millisecond at least."""
        if rng.random() < self.blip_share:
            duration_s = rng.lognormvariate(math.log(self.median_s), self.sigma)
        else:
            duration_s = rng.weibullvariate(self.scale_s, self.shape)
        return max(1, round(duration_s * 1000))


@dataclass(frozen=True, slots=True)
class Service:
    """A consumer group and its dependency; rates of members are for each of them."""

    group: str
    error: Exception
    durations: OutageDurations
    outages_per_day: float
    members: int = 2
    is_static: bool = True
    strategy: Strategy = _SHORT
    scope: ScopeKind = "consumer"
    message_interval_s: float = 5.0
    """The mean time from one message to the next."""
    permanent_error: Exception = field(default_factory=lambda: ValueError("no such customer"))
    permanents_per_day: float = 0.5
    poisons_per_day: float = 0.0
    """Messages that fail for ever with an error that counts as transient."""
    crashes_per_day: float = 0.5
    """Ends of a member without a `Stopped` entry."""
    deploys_per_day: float = 0.5
    is_real: bool = False

    @property
    def topic(self) -> str:
        return f"{self.group}.in"


@dataclass(frozen=True, slots=True)
class Week:
    """Seven days from `begins_ms` on, each `day_ms` long."""

    begins_ms: int
    day_ms: int

    @property
    def ends_ms(self) -> int:
        return self.begins_ms + DAYS * self.day_ms

    def arrivals(self, per_day: float, rng: Random) -> Iterator[int]:
        """The times of events of this rate, more of them by day than by night.

        By thinning: P. A. W. Lewis and G. S. Shedler, Simulation of nonhomogeneous Poisson
        processes by thinning, Naval Research Logistics Quarterly 26 (1979), 403-413.
        """
        at_days, highest = 0.0, per_day * (1 + _SWING)
        while highest > 0 and (at_days := at_days + rng.expovariate(highest)) < DAYS:
            busy = math.cos(2 * math.pi * (at_days - _BUSIEST))
            if rng.random() * (1 + _SWING) < 1 + _SWING * busy:
                yield self.begins_ms + int(at_days * self.day_ms)


@dataclass(frozen=True, slots=True)
class Outage:
    """The dependency fails whatever begins from `begins_ms` on and before `ends_ms`."""

    begins_ms: int
    ends_ms: int


class Calendar:
    """The true outages of one dependency, none of which overlap."""

    def __init__(self, outages: tuple[Outage, ...]) -> None:
        self.outages = outages
        self._begins_ms = [outage.begins_ms for outage in outages]

    @classmethod
    def of(cls, service: Service, week: Week, seed: int) -> Calendar:
        """Draws the outages: the same ones for the same service, week and seed."""
        rng = rng_of(service, seed, "outages")
        found: list[Outage] = []
        for at_ms in week.arrivals(service.outages_per_day, rng):
            if not found or at_ms > found[-1].ends_ms:
                found.append(Outage(at_ms, at_ms + service.durations.sample_ms(rng)))
        return cls(tuple(found))

    def during(self, at_ms: int) -> Outage | None:
        """The outage that fails an attempt that starts at this moment, if any."""
        index = bisect_right(self._begins_ms, at_ms) - 1
        if index < 0 or at_ms >= self.outages[index].ends_ms:
            return None
        return self.outages[index]


def rng_of(service: Service, seed: int, purpose: str) -> Random:
    """A generator for one purpose of one service: another service does not change it."""
    return Random(f"{seed}/{service.group}/{purpose}")


def _network(text: str) -> Exception:
    return ConnectionError(f"connection refused: {text}")


def _slow(text: str) -> Exception:
    return TimeoutError(f"no answer within 5 s: {text}")


_BLIPS = OutageDurations(blip_share=0.85, median_s=20, sigma=0.8, scale_s=600, shape=0.7)
_DEPLOYS = OutageDurations(blip_share=0.97, median_s=45, sigma=0.4, scale_s=300, shape=0.8)
_REPAIRED = OutageDurations(blip_share=0.4, median_s=60, sigma=1.0, scale_s=2400, shape=0.8)
_SECONDS = OutageDurations(blip_share=0.9, median_s=0.3, sigma=0.6, scale_s=1.0, shape=0.9)

FLEET: tuple[Service, ...] = (
    Service("billing", _network("payments:8080"), _BLIPS, 45),
    Service("shipping", _slow("carrier:443"), _REPAIRED, 12, strategy=_PATIENT),
    Service(
        "search-index",
        _network("opensearch:9200"),
        _DEPLOYS,
        40,
        poisons_per_day=0.5,
        scope="topic",
    ),
    Service("emails", _slow("smtp:587"), _BLIPS, 30, members=3, is_static=False),
    Service("fraud", _slow("scores:8443"), _DEPLOYS, 60, strategy=_MINUTES, message_interval_s=1),
    Service("invoices", _network("erp:5432"), _REPAIRED, 6, members=1, strategy=_PATIENT),
    Service(
        "loyalty", _network("points:8080"), _BLIPS, 25, permanent_error=TimeoutError("rolled back")
    ),
    Service(
        "stock", _network("warehouse:5432"), _REPAIRED, 8, strategy=_MINUTES, permanents_per_day=2
    ),
    Service("returns", _network("carrier:443"), _BLIPS, 2, members=1, message_interval_s=60),
    Service(
        "exports",
        _slow("sftp:22"),
        _REPAIRED,
        1,
        members=1,
        is_static=False,
        message_interval_s=300,
    ),
    Service("ledger", _network("ledger:5432"), _SECONDS, 3, 1, strategy=_QUICK, is_real=True),
    Service("sms", _slow("gateway:443"), _SECONDS, 3, 1, strategy=_QUICK, is_real=True),
)
