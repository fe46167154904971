"""Decides what follows a failure, as the user chose: a wait, a dead letter, a skip, a stop ..."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal, Protocol, TypeAlias, assert_never

from linear_retry.errors import ConfigurationError, UsageError
from linear_retry.events import StrategyRefused, StrategyReloaded
from linear_retry.records.lineage import Hop, Lineage
from linear_retry.records.text import brief, leaves
from linear_retry.retry.callables import UndoneError
from linear_retry.retry.retry_after import RetryAfter, asked_s
from linear_retry.scope import AnyScope

OnExhausted: TypeAlias = Literal["dead-letter", "repeat", "block", "stop"]
OnPermanent: TypeAlias = Literal["dead-letter", "skip", "block", "stop"]
IsTransient: TypeAlias = Callable[[BaseException], bool]


class Delays(Protocol):
    """The part of a strategy that a decision needs."""

    @property
    def label(self) -> str:
        """The strategy's name and fingerprint."""

    @property
    def max_elapsed_s(self) -> float | None:
        """No retry begins later than this after the first failure; None: there is no such limit."""

    def __len__(self) -> int: ...

    def delay_s(self, failures: int, rng: Callable[[], float] | None = None, /) -> float | None:
        """Seconds to wait after failure number `failures` (1-based); None: exhausted."""


def check_repeated(strategy: Delays) -> None:
    """Raises `ConfigurationError` if `on_exhausted="repeat"` is not possible with these delays."""
    if len(strategy) == 0:
        raise ConfigurationError(
            f"strategy {strategy.label}: it is empty, and on_exhausted='repeat' repeats the last "
            "delay; add a delay"
        )
    if strategy.max_elapsed_s is not None:
        raise ConfigurationError(
            f"strategy {strategy.label}: it ends after max_elapsed, {strategy.max_elapsed_s:g} s, "
            "and on_exhausted='repeat' never ends; remove one of them"
        )


class Limit(Protocol):
    """A limit of messages in a row that leave the line, and the wait of the next one."""

    @property
    def limit(self) -> int | None:
        """The number of messages without a success in between; None: no limit."""

    @property
    def hold_s(self) -> float | None:
        """How long the next one waits for each attempt; None: by the strategy, 30 s at least."""


class Carrier(Limit, Protocol):
    """Keeps messages that left the line until their next attempt: `RetryTopics`, `Scheduler`."""

    @property
    def discards(self) -> bool:
        """Whether a message is skipped instead of dead-lettered when its waits are used up."""

    def delay_ms(self, topic: str) -> int | None:
        """Returns how long messages wait in `topic`; None if it is not one of its topics."""

    def next_hop(
        self, left: Left, at_least_s: float, rng: Callable[[], float] | None = None, /
    ) -> Hop | None:
        """Returns the next wait of a message that fails now; None: its waits are used up."""


@dataclass(frozen=True, slots=True)
class Left:
    """The progress off the line of a message that fails at `now_ms`. `hop` is its last wait."""

    now_ms: int
    first_failure_ms: int
    hop: Hop | None = None

    @classmethod
    def of(cls, lineage: Lineage, first_failure_ms: int, now_ms: int) -> Left:
        """`first_failure_ms` applies if the message has not failed before it was read here."""
        earlier_ms = lineage.first_failure_ms
        # Where a header is missing it is -1, and every `max_elapsed` would be over at once.
        failed_before = lineage.failures > 0 and earlier_ms >= 0
        return cls(now_ms, earlier_ms if failed_before else first_failure_ms, lineage.hop)

    def is_too_late(self, retry_at_ms: int, max_elapsed_s: float | None) -> bool:
        """Whether a retry at that time would begin too long after its first failure."""
        if max_elapsed_s is None:
            return False
        return retry_at_ms - self.first_failure_ms > max_elapsed_s * 1000


@dataclass(frozen=True, slots=True)
class Policy:
    """The user's choices, fixed for the life of a consumer but for what a strategy's file has.

    `dead_letters` is the dead-letter topic; "" if no choice needs one. `letter_limit` is the
    number of dead letters in a row after which no more are sent until a message succeeds: that
    many point to an outage or a bug. None: no limit. `hold_s` is how long a message then waits
    for its next attempt; None: the strategy's last delay, at most its `max_elapsed`, and at least
    30 s. `carrier` takes messages that the strategy has not saved, and so does `recovery`; without
    either they go to the dead-letter topic at once.
    """

    strategy: Delays
    on_exhausted: OnExhausted = "dead-letter"
    on_permanent: OnPermanent = "dead-letter"
    letter_limit: int | None = None
    hold_s: float | None = None
    dead_letters: str = ""
    carrier: Carrier | None = None
    recovery: Limit | None = None

    @property
    def needs_dead_letters(self) -> bool:
        gives_up = self.on_exhausted == "dead-letter" and self.recovery is None
        return gives_up or self.on_permanent == "dead-letter"

    @property
    def blocks(self) -> bool:
        """Whether any message waits for an operator in the end."""
        return "block" in (self.on_exhausted, self.on_permanent)

    def strategy_for(self, failure: Failure) -> Delays:
        """The strategy for this failure: the policy's own, if no rule gives another."""
        given = failure.strategy if isinstance(failure, Transient) else None
        return self.strategy if given is None else given

    def needs_exception(self, failure: Failure) -> bool:
        """Whether the exception itself may be passed on: raised as a cause, or to `recovery`."""
        if isinstance(failure, Permanent):
            return self.on_permanent == "stop"
        return self.on_exhausted == "stop" or self.recovery is not None

    def is_returned(self, left: Left | None) -> bool:
        """Whether the message was returned to its source, for one attempt there."""
        if self.carrier is None or left is None or left.hop is None:
            return False
        return self.carrier.delay_ms(left.hop.topic) is None

    @property
    def has_limit(self) -> bool:
        """Whether any limit applies to messages that leave the line."""
        others = (each.limit for each in (self.carrier, self.recovery) if each is not None)
        return any(limit is not None for limit in (self.letter_limit, *others))


class Rules(Protocol):
    """Strategies for some errors and topics each, which may change between two failures."""

    @property
    def are_several(self) -> bool:
        """Whether there is more than one."""

    def find(self, errors: Sequence[BaseException], topic: str, /) -> Delays | None:
        """Returns the strategy for an error, of which these are the leaves; None: one has none."""

    def labelled(self, label: str, /) -> Delays | None:
        """Returns the strategy with this label."""

    def look(self) -> StrategyReloaded | StrategyRefused | None:
        """Reads their file again, if it has changed. Returns what has happened, once."""


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """The policy, and how errors are classified. `rng` draws jitter in [0, 1); None: no jitter.

    `rules` choose the strategy of an error; None: it is the policy's.
    """

    policy: Policy
    is_transient: IsTransient
    scope: AnyScope
    rng: Callable[[], float] | None = None
    rules: Rules | None = None

    def transient_again(self, label: str) -> Transient:
        """A failure as one before, whose strategy had this label."""
        return Transient(strategy=None if self.rules is None else self.rules.labelled(label))


@dataclass(frozen=True, slots=True)
class Transient:
    """It may succeed later; `at_least_s` is the wait that the handler asked for (`RetryAfter`).

    `strategy` is that of the rule for it; None: the policy's.
    """

    at_least_s: float = 0.0
    strategy: Delays | None = None


@dataclass(frozen=True, slots=True)
class Permanent:
    """It will never succeed."""


Failure: TypeAlias = Transient | Permanent


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
class Block:
    """Hold the message until an operator retries it or gives it up."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Continue without the message: the user chose to lose it."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Raise, and commit nothing past the message."""

    reason: Reason


Decision: TypeAlias = Wait | Publish | Recover | Defer | Block | Skip | Stop
"""What follows a failure. Messages that are never attempted, such as another group's replay, are
filtered out before the hand-over, in `Loop`."""


def classify(
    error: Exception, is_transient: IsTransient, rules: Rules | None = None, topic: str = ""
) -> Failure:
    """Whether the error is transient or permanent, in `topic`, where there are `rules`.

    `RetryAfter` is always transient. An `ExceptionGroup` is transient if all its leaves are: one
    permanent leaf makes every further attempt pointless. Raises `UsageError` if `is_transient`,
    or a rule's predicate, raises.
    """
    strategy = None
    whose = "transient=" if rules is None else "transient= or errors= of a rule"
    found = list(leaves(error)) if isinstance(error, BaseExceptionGroup) else [error]
    asking = [leaf for leaf in found if isinstance(leaf, RetryAfter)]
    others = [leaf for leaf in found if not isinstance(leaf, RetryAfter)]
    try:
        if not all(map(is_transient, others)):
            return Permanent()
        if rules is not None and (strategy := rules.find(found, topic)) is None:
            return Permanent()
    except UndoneError as undone:
        raise UsageError(
            f"{whose} returned {undone}; nothing was decided about the message"
        ) from None
    except Exception as raised:
        raise UsageError(
            f"{whose} raised {brief(raised)} for {brief(error)}: it must "
            "return True or False for any exception; nothing was decided about the message"
        ) from raised
    return Transient(max(map(asked_s, asking), default=0.0), strategy)


def decide(
    failure: Failure,
    failures: int,
    policy: Policy,
    rng: Callable[[], float] | None = None,
    *,
    elapsed_s: float = 0.0,
    consecutive: int = 0,
    left: Left | None = None,
    is_other_rule: bool = False,
) -> Decision:
    """Decides what to do after failure number `failures` (1-based) of a message.

    `is_other_rule`: another rule was for the failure before. Only one that has seen the message
    fail twice in a row exhausts it; the first time it is attempted again after the last delay.

    `elapsed_s` is the time since its first failure, `consecutive` the number of messages that left
    the line since the last success. `left` is this message's progress off the line; None: its next
    wait is not needed.
    """
    decision = _by_itself(failure, failures, policy, rng, elapsed_s, left, is_other_rule)
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
    is_other_rule: bool,
) -> Decision:
    match failure:
        case Permanent():
            return _after_permanent(policy)
        case Transient(at_least_s=at_least_s):
            if policy.is_returned(left):
                return _leave(policy, left, at_least_s, rng)
            strategy = policy.strategy_for(failure)
            delay_s = strategy.delay_s(failures, rng)
            if delay_s is None and (policy.on_exhausted == "repeat" or is_other_rule):
                delay_s = _last_delay_s(strategy, rng)
            if delay_s is not None:
                wait_s = max(delay_s, at_least_s)
                if _is_in_time(strategy, elapsed_s + wait_s):
                    return Wait(wait_s)
            return _after_exhausted(policy, left, at_least_s, rng)
        case _:
            assert_never(failure)


def _after_exhausted(
    policy: Policy, left: Left | None, at_least_s: float, rng: Callable[[], float] | None
) -> Decision:
    match policy.on_exhausted:
        case "stop":
            return Stop("exhausted")
        case "block":
            return Block()
        case "dead-letter" | "repeat":
            return _leave(policy, left, at_least_s, rng)
        case choice:
            assert_never(choice)


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
        case "block":
            return Block()
        case "stop":
            return Stop("permanent")
        case choice:
            assert_never(choice)
