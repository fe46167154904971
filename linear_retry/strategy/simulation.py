"""Simulates strategies in outages of a given length.

The outage begins when the first attempt starts, and times are milliseconds since then. An attempt
that starts before the end of the outage fails, even if it ends later; one that starts at the end
or later succeeds.
"""

from dataclasses import dataclass
from typing import TypeAlias

from linear_retry.retry.decision import Policy
from linear_retry.strategy.schedule import Failures, GivesUp, Schedule, schedule


@dataclass(frozen=True, slots=True)
class Recovered:
    """Attempt number `attempt` succeeds: it starts `idle_ms` after the dependency was back."""

    attempt: int
    at_ms: int
    idle_ms: int


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Attempt number `attempt` was the last; it started `too_early_ms` too early to succeed."""

    attempt: int
    at_ms: int
    """When that attempt failed."""
    too_early_ms: int
    outcome: GivesUp


Ending: TypeAlias = Recovered | GivenUp


@dataclass(frozen=True, slots=True)
class Spread:
    """The bounds of the idle time, over all jitter.

    The longest idle time is not that of the longest waits, but of waits that bring an attempt to
    just before the end of the outage. `may_give_up`: with short waits, the strategy runs out.
    """

    idle_min_ms: int
    idle_max_ms: int
    may_give_up: bool


@dataclass(frozen=True, slots=True)
class Simulation:
    """The result for an outage of `outage_ms`, without jitter except for `spread`."""

    outage_ms: int
    failures: tuple[Failures, ...]
    """The failing attempts, in order."""
    ending: Ending
    spread: Spread | None
    """The bounds with jitter; None: it gives up in any case."""


class Simulator:
    """Simulates one strategy in outages of any length.

    `attempt_ms` is how long an attempt takes to fail. Raises `ConfigurationError` if
    `on_exhausted="repeat"` has no last wait to repeat, or only one in which no time passes.
    """

    def __init__(self, policy: Policy, attempt_ms: int = 0) -> None:
        self._attempts = schedule(policy, attempt_ms)
        # Jitter moves attempts beyond `max_elapsed`, so the limit is applied to the result.
        self._shortest = schedule(policy, attempt_ms, is_limited=False)
        self._longest = schedule(policy, attempt_ms, lambda: 1.0, is_limited=False)
        max_elapsed_s = policy.strategy.max_elapsed_s
        self._last_ms = None if max_elapsed_s is None else attempt_ms + round(max_elapsed_s * 1000)

    @property
    def waits_out_ms(self) -> int | None:
        """The longest outage in which it never gives up; None: it never gives up at all."""
        if self._shortest.gives_up is None:
            return None
        return _waits_out_ms(self._shortest, self._longest, self._last_ms)

    def through(self, outage_ms: int) -> Simulation:
        """Simulates an outage of this many milliseconds, 0 or more."""
        ending = _ending(outage_ms, self._attempts)
        failed = ending.attempt - 1 if isinstance(ending, Recovered) else ending.attempt
        spread = _spread(outage_ms, self._shortest, self._longest)
        if spread is not None and self._last_ms is not None:
            spread = _limited(spread, self._last_ms - outage_ms)
        return Simulation(outage_ms, self._attempts.failures(failed), ending, spread)


def _ending(outage_ms: int, attempts: Schedule) -> Ending:
    """Returns how the outage ends for a message with these attempts."""
    found = attempts.first_from(outage_ms)
    if found is not None:
        return Recovered(*found, idle_ms=found[1] - outage_ms)
    assert attempts.gives_up is not None, "there is a first attempt from any moment on"
    last_ms = attempts.starts_ms[-1]
    failed_ms = last_ms + attempts.attempt_ms
    return GivenUp(len(attempts.starts_ms), failed_ms, outage_ms - last_ms, attempts.gives_up)


def _spread(outage_ms: int, shortest: Schedule, longest: Schedule) -> Spread | None:
    """Computes the bounds: every attempt starts between its starts in the two schedules.

    So the first that may succeed is the first that does in `longest`. From that one up to the last
    that may fail, each may also start at the last moment of the outage, and wait once more.
    """
    late = longest.first_from(outage_ms)
    if late is None:
        return None
    early = shortest.first_from(outage_ms)
    idle_max_ms = late[1] - outage_ms
    if early is not None and early[0] == late[0]:
        return Spread(early[1] - outage_ms, idle_max_ms, may_give_up=False)
    first = min(late[0], len(longest.starts_ms)) - 1
    last = None if early is None else early[0] - 1
    idle_ms = [longest.attempt_ms + wait_ms for wait_ms in longest.waits_ms[first:last]]
    return Spread(0, max([idle_max_ms, *idle_ms]), may_give_up=early is None)


def _limited(spread: Spread, left_ms: int) -> Spread | None:
    """Returns the bounds if no attempt starts later than `left_ms` after the outage."""
    if spread.idle_min_ms > left_ms:
        return None
    if spread.idle_max_ms <= left_ms:
        return spread
    return Spread(spread.idle_min_ms, left_ms, may_give_up=True)


def _waits_out_ms(shortest: Schedule, longest: Schedule, last_ms: int | None) -> int:
    """Returns the earliest start of the last attempt, if none starts later than `last_ms`.

    An attempt is the last if none follows, or if its wait may move the next beyond `last_ms`.
    """
    if last_ms is None:
        return shortest.starts_ms[-1]
    found = [start_ms for start_ms in shortest.starts_ms[-1:] if start_ms <= last_ms]
    starts_ms = zip(shortest.starts_ms, longest.starts_ms, longest.waits_ms, strict=False)
    for early_ms, late_ms, wait_ms in starts_ms:
        from_ms = last_ms - wait_ms - longest.attempt_ms
        if early_ms <= last_ms and from_ms < late_ms:
            found.append(max(early_ms, from_ms))
    return min(found)
