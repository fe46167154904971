"""What a handler may ask about the attempt that it makes."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from linear_retry.errors import UsageError


@dataclass(frozen=True, slots=True)
class AttemptInfo:
    """An attempt of a message: what came before it, and what follows if it fails.

    `failures` are those of the message so far, in its line and in retry topics; a replayed message
    begins at 0. `first_failure` is the time of the first, in UTC; None without one. `next_delay_s`
    is how long the message waits if this attempt fails now with a transient error that asks for no
    wait of its own, without jitter; None: it is not attempted again, and goes where `on_exhausted`
    says. `message_id` is that of `message_id(message)`, the same in each of its lives.
    """

    failures: int
    first_failure: datetime | None
    next_delay_s: float | None
    message_id: str

    @property
    def number(self) -> int:
        """The number of the attempt, from 1 on."""
        return self.failures + 1

    @property
    def is_last(self) -> bool:
        """Whether the message is given up if this attempt fails."""
        return self.next_delay_s is None


Ask: TypeAlias = Callable[[], AttemptInfo]
_ask: ContextVar[Ask | None] = ContextVar("linear_retry.current_attempt", default=None)


def current_attempt() -> AttemptInfo:
    """Returns what is known of the attempt that is being made, inside a handler.

    In the thread or task that calls the handler, or one with a copy of its context, as long as the
    handler runs; of a batch it is about the first message, in `foreach_batch` about the
    micro-batch. Raises `UsageError` elsewhere; in a loop of your own, `Attempt.info` is the same.
    """
    ask = _ask.get()
    if ask is None:
        raise UsageError(
            "current_attempt() was called outside a handler; call it in the thread or task that "
            "runs the handler, or use attempt.info in a loop of your own"
        )
    return ask()


def answer_by(ask: Ask | None) -> Ask | None:
    """Lets `current_attempt` return what `ask` does, in this thread or task; None: raise.

    Returns what it was before, to be set again: a token would not do, as a coroutine that is
    garbage-collected ends in another context.
    """
    before = _ask.get()
    _ask.set(ask)
    return before
