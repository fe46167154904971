"""The user's choices about failures, and the kinds of failure that they are about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from linear_retry.errors import ConfigurationError
from linear_retry.records.lineage import Hop, Lineage
from linear_retry.scope import ScopeKind

OnExhausted: TypeAlias = Literal["dead-letter", "repeat", "stop"]
OnPermanent: TypeAlias = Literal["dead-letter", "skip", "stop"]
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
    """The user's choices, fixed for the life of a consumer.

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

    def strategy_for(self, failure: Failure) -> Delays:  # noqa: ARG002  (the seam for several)
        """The strategy for this failure: the same one for all."""
        return self.strategy

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


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """The policy, and how errors are classified. `rng` draws jitter in [0, 1); None: no jitter."""

    policy: Policy
    is_transient: IsTransient
    scope: ScopeKind
    rng: Callable[[], float] | None = None


@dataclass(frozen=True, slots=True)
class Transient:
    """It may succeed later; `at_least_s` is the wait that the handler asked for (`RetryAfter`)."""

    at_least_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Permanent:
    """It will never succeed."""


Failure: TypeAlias = Transient | Permanent
