"""An attempt has failed: what now?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, assert_never

from linear_retry.errors import RetryAfter

OnExhausted: TypeAlias = Literal["dead-letter", "repeat", "stop"]
OnPermanent: TypeAlias = Literal["dead-letter", "skip", "stop"]
Reason: TypeAlias = Literal["exhausted", "permanent"]
IsTransient: TypeAlias = Callable[[BaseException], bool]


class Delays(Protocol):
    """What a decision asks of a strategy."""

    @property
    def label(self) -> str:
        """Which strategy, and in which version."""

    def __len__(self) -> int: ...

    def delay_s(self, failures: int, dice: Callable[[], float] | None = None) -> float | None:
        """Seconds to wait after failure number `failures` (1-based); None: exhausted."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What the user chose, once and for all of a consumer's life."""

    strategy: Delays
    on_exhausted: OnExhausted = "dead-letter"
    on_permanent: OnPermanent = "dead-letter"

    @property
    def needs_dead_letters(self) -> bool:
        return "dead-letter" in (self.on_exhausted, self.on_permanent)


@dataclass(frozen=True, slots=True)
class Transient:
    """It may succeed later; `at_least_s` is what the handler asked for (`RetryAfter`)."""

    error: Exception
    at_least_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Permanent:
    """It will never succeed."""

    error: Exception


Failure: TypeAlias = Transient | Permanent


@dataclass(frozen=True, slots=True)
class Wait:
    """Hold the message, attempt it again after `delay_s`."""

    delay_s: float


@dataclass(frozen=True, slots=True)
class Bury:
    """Send it to the dead-letter topic."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Skip:
    """Go on without it: loss by choice."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Raise, with nothing committed past it."""

    reason: Reason


Decision: TypeAlias = Wait | Bury | Skip | Stop


def classify(error: Exception, is_transient: IsTransient) -> Failure:
    """Transient or permanent?

    `RetryAfter` is transient unasked. An `ExceptionGroup` is transient where all its leaves are:
    one leaf that can never succeed makes every further attempt pointless.
    Whatever `is_transient` raises goes through.
    """
    leaves = list(_leaves(error))
    if not all(isinstance(leaf, RetryAfter) or is_transient(leaf) for leaf in leaves):
        return Permanent(error)
    asked_s = [leaf.seconds for leaf in leaves if isinstance(leaf, RetryAfter)]
    return Transient(error, max(asked_s, default=0.0))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def decide(
    failure: Failure, failures: int, policy: Policy, dice: Callable[[], float] | None = None
) -> Decision:
    """What to do after failure number `failures` (1-based, this one included) of a message."""
    match failure:
        case Permanent():
            return _after_permanent(policy.on_permanent)
        case Transient(at_least_s=at_least_s):
            delay_s = policy.strategy.delay_s(failures, dice)
            if delay_s is None and policy.on_exhausted == "repeat":
                delay_s = policy.strategy.delay_s(len(policy.strategy), dice)
            if delay_s is not None:
                return Wait(max(delay_s, at_least_s))
            return Stop("exhausted") if policy.on_exhausted == "stop" else Bury("exhausted")
        case _:
            assert_never(failure)


def _after_permanent(choice: OnPermanent) -> Decision:
    match choice:
        case "dead-letter":
            return Bury("permanent")
        case "skip":
            return Skip()
        case "stop":
            return Stop("permanent")
        case _:
            assert_never(choice)
