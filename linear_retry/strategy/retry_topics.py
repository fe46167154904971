"""Simulates outages in which messages leave the line for retry topics.

Times are those of `linear_retry.strategy.simulation`. Leaving and coming back take no time.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, chain

from linear_retry.errors import ConfigurationError
from linear_retry.retry.decision import defer_s
from linear_retry.retry.policy import Policy, Transient
from linear_retry.strategy.schedule import Failures, Schedule, schedule
from linear_retry.strategy.simulation import Ending, Recovered, Simulation, ending_of
from linear_retry.strategy.strategy import Strategy, check_retry_delays

_DOWN = Transient(ConnectionError("the dependency is down"))


@dataclass(frozen=True, slots=True)
class Journey:
    """An outage, for the first message and for those that wait in the line behind it.

    Both are without jitter, and have no `spread`. In the line, each message is attempted after the
    one before it has left.
    """

    message: Simulation
    """The first message's attempts in the line, then one in each step."""
    in_line: int
    """The number of its attempts in the line; attempt `in_line + n` is that of step n."""
    line: Simulation
    """The attempts of all messages in the line, up to the first success, as one simulation."""
    left: int
    """The number of messages that leave in a row, including the first."""
    is_held: bool
    """Whether the limit is reached, and the next message is held until it succeeds."""


class RetryTopicsSimulator:
    """Simulates a blocking strategy followed by one of retry topics, in outages of any length.

    `policy` is that of the line. `attempt_ms` is how long an attempt takes to fail. After `limit`
    messages in a row the next is held, and attempted again after each `hold_s` of `policy`. All
    times are without jitter. Raises `ConfigurationError` if messages cannot leave in this way.
    """

    def __init__(
        self, policy: Policy, then: Strategy, attempt_ms: int = 0, *, limit: int = 20
    ) -> None:
        _check(policy, then)
        self._limit = limit
        self._hold_ms = round(defer_s(_DOWN, policy, hold_s=policy.hold_s) * 1000)
        self._attempts = schedule(policy, attempt_ms)
        self._in_line = len(self._attempts.starts_ms)
        self._leaves_ms = self._attempts.starts_ms[-1] + attempt_ms
        self._steps = _steps(then, self._leaves_ms, attempt_ms)

    @property
    def waits_out_ms(self) -> int:
        """The longest outage in which no message is dead-lettered."""
        return (self._steps or self._attempts).starts_ms[-1]

    def through(self, outage_ms: int) -> Journey:
        """Simulates an outage of this many milliseconds, 0 or more."""
        wanted = self._wanting_to_leave(outage_ms)
        left, is_held = min(wanted, self._limit), wanted > self._limit
        line = self._line(outage_ms, left, is_held)
        return Journey(self._message(outage_ms), self._in_line, line, left, is_held)

    def _message(self, outage_ms: int) -> Simulation:
        before = ending_of(outage_ms, self._attempts)
        failures = _failures(self._attempts, before)
        if isinstance(before, Recovered) or self._steps is None:
            return Simulation(outage_ms, failures, before, None)
        after = ending_of(outage_ms, self._steps)
        last = replace(failures[-1], wait_ms=self._steps.starts_ms[0] - self._leaves_ms)
        steps = _later(_failures(self._steps, after), self._in_line)
        ending = replace(after, attempt=self._in_line + after.attempt)
        return Simulation(outage_ms, (*failures[:-1], last, *steps), ending, None)

    def _line(self, outage_ms: int, left: int, is_held: bool) -> Simulation:
        began_ms, attempts = left * self._leaves_ms, left * self._in_line
        if is_held:
            failures, last_attempt, at_ms = self._held(outage_ms - began_ms)
        else:
            last = ending_of(outage_ms - began_ms, self._attempts)
            failures = _failures(self._attempts, last)
            last_attempt, at_ms = last.attempt, last.at_ms
        whole = self._attempts.failures(self._in_line)
        by_message = [_later(whole, n * self._in_line, n * self._leaves_ms) for n in range(left)]
        ending = Recovered(attempts + last_attempt, began_ms + at_ms, began_ms + at_ms - outage_ms)
        everything = (*chain(*by_message), *_later(failures, attempts, began_ms))
        return Simulation(outage_ms, everything, ending, None)

    def _wanting_to_leave(self, outage_ms: int) -> int:
        """Returns how many would leave without the limit, counting at most one beyond it."""
        short_ms = outage_ms - self._attempts.starts_ms[-1]
        if short_ms <= 0:
            return 0
        if self._leaves_ms == 0:
            return self._limit + 1
        return min(-(-short_ms // self._leaves_ms), self._limit + 1)

    def _held(self, outage_ms: int) -> tuple[tuple[Failures, ...], int, int]:
        """Simulates the message that exceeds the limit: it is attempted again after each hold.

        Returns its failures, and the number and the start of the attempt that succeeds.
        """
        attempts, last_ms = self._attempts, self._attempts.starts_ms[-1]
        every_ms = attempts.attempt_ms + self._hold_ms
        times = -(-(outage_ms - last_ms) // every_ms)
        held = Failures(self._in_line, times, last_ms, every_ms, self._hold_ms)
        failures = (*attempts.failures(self._in_line)[:-1], held)
        return failures, self._in_line + times, last_ms + times * every_ms


def _steps(then: Strategy, leaves_ms: int, attempt_ms: int) -> Schedule | None:
    """Schedules the attempts after it has left; None: `max_elapsed` allows none."""
    waits_ms = [delay_ms + attempt_ms for delay_ms in then.delays_ms]
    starts_ms = [leaves_ms + since_ms - attempt_ms for since_ms in accumulate(waits_ms)]
    if then.max_elapsed_s is not None:
        # The limit counts from the first failure, at `attempt_ms`.
        last_ms = attempt_ms + round(then.max_elapsed_s * 1000)
        starts_ms = [start_ms for start_ms in starts_ms if start_ms <= last_ms]
    if not starts_ms:
        return None
    between_ms = then.delays_ms[1 : len(starts_ms)]
    return Schedule(tuple(starts_ms), between_ms, attempt_ms, "dead-lettered")


def _failures(attempts: Schedule, ending: Ending) -> tuple[Failures, ...]:
    return attempts.failures(ending.attempt - isinstance(ending, Recovered))


def _later(runs: Iterable[Failures], attempts: int, by_ms: int = 0) -> Iterator[Failures]:
    for run in runs:
        yield replace(run, attempt=run.attempt + attempts, at_ms=run.at_ms + by_ms)


def _check(policy: Policy, then: Strategy) -> None:
    if policy.on_exhausted != "dead-letter":
        raise ConfigurationError(
            f"on_exhausted={policy.on_exhausted!r}: messages never leave the line then; leave it "
            "out, or simulate without retry topics"
        )
    if policy.hold_s == 0:
        raise ConfigurationError("hold=0: the held message would be attempted all the time")
    check_retry_delays(then)
