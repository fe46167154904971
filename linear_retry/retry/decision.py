"""Decides what follows a failure: a wait, a dead letter, a skip or a stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Literal, TypeAlias, assert_never

from linear_retry.errors import UsageError
from linear_retry.records.lineage import Hop
from linear_retry.records.text import brief, leaves
from linear_retry.retry.callables import UndoneError
from linear_retry.retry.policy import (
    Delays,
    Failure,
    IsTransient,
    Left,
    Limit,
    Permanent,
    Policy,
    Transient,
)
from linear_retry.retry.retry_after import RetryAfter, asked_s

Reason: TypeAlias = Literal["exhausted", "permanent", "transient"]

MIN_DEFER_S = 30.0
_ROUNDING_S = 1e-6
GIVEN_UP = "given-up"
"""The reason of a dead letter that an operator requested."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Hold the message and attempt it again after `delay_s`."""

    delay_s: float


@dataclass(frozen=True, slots=True)
class Publish:
    """Send it to `topic`, and continue with the next message once that is acknowledged.

    `hop` is the wait that it leaves the line for; None: it is dead-lettered.
    """

    topic: str
    reason: Reason
    hop: Hop | None = None


@dataclass(frozen=True, slots=True)
class Recover:
    """Hand it over to the user's function, and continue once that returns."""


@dataclass(frozen=True, slots=True)
class Defer:
    """The `limit` in a row is reached: hold the message, attempt it again after `delay_s`."""

    delay_s: float
    limit: int


@dataclass(frozen=True, slots=True)
class Skip:
    """Continue without the message: the user chose to lose it."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Raise, and commit nothing past the message."""

    reason: Reason


Decision: TypeAlias = Wait | Publish | Recover | Defer | Skip | Stop
"""What follows a failure. Messages that are never attempted, such as another group's replay, are
filtered out before the hand-over, in `Loop`."""


def classify(error: Exception, is_transient: IsTransient) -> Failure:
    """Whether the error is transient or permanent.

    `RetryAfter` is always transient. An `ExceptionGroup` is transient if all its leaves are: one
    permanent leaf makes every further attempt pointless. Raises `UsageError` if `is_transient`
    raises.
    """
    found = list(leaves(error)) if isinstance(error, BaseExceptionGroup) else [error]
    asking = [leaf for leaf in found if isinstance(leaf, RetryAfter)]
    others = [leaf for leaf in found if not isinstance(leaf, RetryAfter)]
    try:
        if not all(map(is_transient, others)):
            return Permanent()
    except UndoneError as undone:
        raise UsageError(
            f"transient= returned {undone}; nothing was decided about the message"
        ) from None
    except Exception as raised:
        raise UsageError(
            f"transient= raised {brief(raised)} for {brief(error)}: it must "
            "return True or False for any exception; nothing was decided about the message"
        ) from raised
    return Transient(max(map(asked_s, asking), default=0.0))


def is_any_of(types: tuple[type[BaseException], ...]) -> IsTransient:
    """Returns a predicate: whether an error is of one of these types."""
    return lambda error: isinstance(error, types)


def decide(
    failure: Failure,
    failures: int,
    policy: Policy,
    rng: Callable[[], float] | None = None,
    *,
    elapsed_s: float = 0.0,
    consecutive: int = 0,
    left: Left | None = None,
) -> Decision:
    """Decides what to do after failure number `failures` (1-based) of a message.

    `elapsed_s` is the time since its first failure, `consecutive` the number of messages that left
    the line since the last success. `left` is this message's progress off the line; None: its next
    wait is not needed.
    """
    decision = _by_itself(failure, failures, policy, rng, elapsed_s, left)
    if isinstance(decision, Publish | Recover):
        limit, hold_s = _limit_of(decision, policy)
        if limit is not None and consecutive >= limit:
            return Defer(defer_s(failure, policy, rng, hold_s), limit)
    return decision


def _limit_of(leaving: Publish | Recover, policy: Policy) -> tuple[int | None, float | None]:
    """Returns `limit` and `hold_s` of the message's destination."""
    where: Limit | None = None
    if isinstance(leaving, Recover):
        where = policy.recovery
    elif leaving.hop is not None:
        where = policy.carrier
    return (policy.letter_limit, policy.hold_s) if where is None else (where.limit, where.hold_s)


def defer_s(
    failure: Failure,
    policy: Policy,
    rng: Callable[[], float] | None = None,
    hold_s: float | None = None,
) -> float:
    """Returns how long a message waits that would exceed a limit with this `hold_s`."""
    if hold_s is None:
        strategy = policy.strategy_for(failure)
        # Delays that `max_elapsed` prevents never happen, so no hold may be as long either.
        last_s = min(_last_delay_s(strategy, rng) or 0.0, strategy.max_elapsed_s or inf)
        hold_s = max(last_s, MIN_DEFER_S)
    return max(hold_s, failure.at_least_s) if isinstance(failure, Transient) else hold_s


def _by_itself(
    failure: Failure,
    failures: int,
    policy: Policy,
    rng: Callable[[], float] | None,
    elapsed_s: float,
    left: Left | None,
) -> Decision:
    match failure:
        case Permanent():
            return _after_permanent(policy)
        case Transient(at_least_s=at_least_s):
            if policy.is_returned(left):
                return _leave(policy, left, at_least_s, rng)
            strategy = policy.strategy_for(failure)
            delay_s = strategy.delay_s(failures, rng)
            if delay_s is None and policy.on_exhausted == "repeat":
                delay_s = _last_delay_s(strategy, rng)
            if delay_s is not None:
                wait_s = max(delay_s, at_least_s)
                if _is_in_time(strategy, elapsed_s + wait_s):
                    return Wait(wait_s)
            if policy.on_exhausted == "stop":
                return Stop("exhausted")
            return _leave(policy, left, at_least_s, rng)
        case _:
            assert_never(failure)


def _is_in_time(strategy: Delays, since_first_s: float) -> bool:
    """Whether a retry may begin so long after the first failure.

    Decided before the wait, jitter and `RetryAfter` included, as tenacity's `stop_before_delay`
    does: to wait first, and give up then without an attempt, would only hold up the scope.
    """
    limit_s = strategy.max_elapsed_s
    return limit_s is None or since_first_s <= limit_s + _ROUNDING_S


def _leave(
    policy: Policy, left: Left | None, at_least_s: float, rng: Callable[[], float] | None
) -> Publish | Recover | Skip:
    """Off the line: to the next wait that the carrier has, else to where its waits end."""
    if policy.recovery is not None:
        return Recover()
    if policy.carrier is not None and left is not None:
        hop = policy.carrier.next_hop(left, at_least_s, rng)
        if hop is not None:
            return Publish(hop.topic, "transient", hop)
        if policy.carrier.discards:
            return Skip()
    return Publish(policy.dead_letters, "exhausted")


def _last_delay_s(strategy: Delays, rng: Callable[[], float] | None) -> float | None:
    return strategy.delay_s(len(strategy), rng) if len(strategy) else None


def _after_permanent(policy: Policy) -> Decision:
    match policy.on_permanent:
        case "dead-letter":
            return Publish(policy.dead_letters, "permanent")
        case "skip":
            return Skip()
        case "stop":
            return Stop("permanent")
        case choice:
            assert_never(choice)
