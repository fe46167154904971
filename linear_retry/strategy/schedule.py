"""The schedule of attempts that all fail.

Times are milliseconds since the first attempt starts. What repeats is counted, not listed.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from math import ceil, inf
from typing import Literal, TypeAlias

from linear_retry.errors import ConfigurationError
from linear_retry.retry.decision import (
    Block,
    Decision,
    Policy,
    Stop,
    Transient,
    Wait,
    check_repeated,
    decide,
)

GivesUp: TypeAlias = Literal["dead-lettered", "blocked", "stopped"]

_DOWN = Transient()


@dataclass(frozen=True, slots=True)
class Failures:
    """`times` failing attempts in a row, each followed by the same wait."""

    attempt: int
    """The number of the first of them."""
    times: int
    at_ms: int
    """When the first of them starts."""
    every_ms: int
    """From the start of one to the start of the next attempt; 0 if there is no next one."""
    wait_ms: int | None
    """None: it is one attempt, and the last of its message there."""

    @property
    def last_at_ms(self) -> int:
        return self.at_ms + (self.times - 1) * self.every_ms


@dataclass(frozen=True, slots=True)
class Schedule:
    """All attempts of one strategy; `schedule` creates one."""

    starts_ms: tuple[int, ...]
    waits_ms: tuple[int, ...]
    """After each attempt; after the last of `starts_ms` there is no wait if it gives up."""
    attempt_ms: int
    gives_up: GivesUp | None
    """After the last of `starts_ms`. None: the last wait is repeated for ever."""

    def first_from(self, moment_ms: int) -> tuple[int, int] | None:
        """Returns number and start of the first attempt from `moment_ms` on; None: it gives up."""
        index, last_ms = bisect_left(self.starts_ms, moment_ms), self.starts_ms[-1]
        if index < len(self.starts_ms):
            return index + 1, self.starts_ms[index]
        if self.gives_up is not None:
            return None
        every_ms = self.waits_ms[-1] + self.attempt_ms
        more = _ceil_div(moment_ms - last_ms, every_ms)
        return len(self.starts_ms) + more, last_ms + more * every_ms

    def failures(self, attempts: int) -> tuple[Failures, ...]:
        """Returns the first `attempts`, grouped by equal waits after them."""
        return tuple(self._runs(attempts))

    def _runs(self, attempts: int) -> Iterator[Failures]:
        waits_ms = (*self.waits_ms, None)[: min(attempts, len(self.starts_ms))]
        attempt = 1
        for wait_ms, run in groupby(waits_ms):
            times = len(list(run))
            if attempt + times > len(self.starts_ms):
                times = attempts - attempt + 1  # the last wait and its repetitions
            every_ms = 0 if wait_ms is None else wait_ms + self.attempt_ms
            yield Failures(attempt, times, self.starts_ms[attempt - 1], every_ms, wait_ms)
            attempt += times


def schedule(
    policy: Policy,
    attempt_ms: int = 0,
    rng: Callable[[], float] | None = None,
    *,
    is_limited: bool = True,
) -> Schedule:
    """Schedules attempts that take `attempt_ms` to fail; `rng` draws the jitter of each wait.

    `is_limited`: only those that the strategy's `max_elapsed` allows. Raises `ConfigurationError`
    if `on_exhausted="repeat"` has no last wait to repeat, or only one in which no time passes, or
    is combined with `max_elapsed`.
    """
    if policy.on_exhausted == "repeat":
        _check_repeated(policy, attempt_ms)
    starts_ms, waits_ms = [0], list[int]()
    while True:
        failures = len(starts_ms)
        # The first attempt fails at `attempt_ms`, the last as long after its own start.
        elapsed_s = starts_ms[-1] / 1000 if is_limited else -inf
        decision = decide(_DOWN, failures, policy, rng, elapsed_s=elapsed_s)
        if not isinstance(decision, Wait):
            return Schedule(tuple(starts_ms), tuple(waits_ms), attempt_ms, _ends(decision))
        waits_ms.append(_whole_ms(decision.delay_s))
        if policy.strategy.delay_s(failures) is None:  # it repeats the last wait
            return Schedule(tuple(starts_ms), tuple(waits_ms), attempt_ms, None)
        starts_ms.append(starts_ms[-1] + attempt_ms + waits_ms[-1])


def _ends(decision: Decision) -> GivesUp:
    match decision:
        case Stop():
            return "stopped"
        case Block():
            return "blocked"
        case _:
            return "dead-lettered"


def _whole_ms(wait_s: float) -> int:
    """Rounds up a wait with jitter, so that a bound is never too low; without, it is whole."""
    return ceil(round(wait_s * 1000, 6))  # 0.105 * 1000 is slightly more than 105


def _check_repeated(policy: Policy, attempt_ms: int) -> None:
    strategy = policy.strategy
    check_repeated(strategy)
    if attempt_ms == 0 and strategy.delay_s(len(strategy)) == 0:
        raise ConfigurationError(
            f"{strategy.label}: 'repeat' repeats the last wait, which is 0s, and an attempt takes "
            "0s too, so no time would pass; lengthen the wait, or say how long an attempt takes"
        )


def _ceil_div(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
