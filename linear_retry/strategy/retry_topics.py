"""Simulates outages in which messages leave the line for retry topics.

Times are those of `linear_retry.strategy.simulation`. Leaving and coming back take no time.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate

from linear_retry.errors import ConfigurationError
from linear_retry.retry.decision import defer_s
from linear_retry.retry.policy import Policy, Transient
from linear_retry.strategy.schedule import Failures, Schedule, schedule
from linear_retry.strategy.simulation import Ending, Recovered, Simulation, ending_of
from linear_retry.strategy.strategy import Strategy, check_retry_delays

_DOWN = Transient()


@dataclass(frozen=True, slots=True)
class Journey:
    """An outage, for the first message and for those that wait in the line behind it.

    Without jitter; the message has no `spread`. In the line, each message is attempted after the
    one before it has left.
    """

    message: Simulation
    """The first message's attempts in the line, then one in each step."""
    in_line: int
    """The number of its attempts in the line; attempt `in_line + n` is that of step n."""
    left: int
    """The number of messages that leave in a row, including the first."""
    is_held: bool
    """Whether the limit is reached, and the next message is held until it succeeds."""
    line_back_ms: int
    """When the first success in the line begins."""

    @property
    def line_idle_ms(self) -> int:
        """How long after the outage that is."""
        return self.line_back_ms - self.message.outage_ms


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
        back_ms = self._line_back_ms(outage_ms, left, is_held)
        return Journey(self._message(outage_ms), self._in_line, left, is_held, back_ms)

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

    def _line_back_ms(self, outage_ms: int, left: int, is_held: bool) -> int:
        """One after another leaves; what exceeds the limit is attempted again after each hold."""
        began_ms = left * self._leaves_ms
        if not is_held:
            return began_ms + ending_of(outage_ms - began_ms, self._attempts).at_ms
        last_ms = began_ms + self._attempts.starts_ms[-1]
        every_ms = self._attempts.attempt_ms + self._hold_ms
        return last_ms + -(-(outage_ms - last_ms) // every_ms) * every_ms

    def _wanting_to_leave(self, outage_ms: int) -> int:
        """Returns how many would leave without the limit, counting at most one beyond it."""
        short_ms = outage_ms - self._attempts.starts_ms[-1]
        if short_ms <= 0:
            return 0
        if self._leaves_ms == 0:
            return self._limit + 1
        return min(-(-short_ms // self._leaves_ms), self._limit + 1)


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


def _later(runs: Iterable[Failures], attempts: int) -> Iterator[Failures]:
    for run in runs:
        yield replace(run, attempt=run.attempt + attempts)


def _check(policy: Policy, then: Strategy) -> None:
    if policy.on_exhausted != "dead-letter":
        raise ConfigurationError(
            f"on_exhausted={policy.on_exhausted!r}: messages never leave the line then; leave it "
            "out, or simulate without retry topics"
        )
    if policy.hold_s == 0:
        raise ConfigurationError("hold=0: the held message would be attempted all the time")
    check_retry_delays(then)
