"""Queues operators' requests until the consumer's thread has answered them."""

import math
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeAlias

from linear_retry.errors import UsageError
from linear_retry.scope import Partition, Scope

Place: TypeAlias = tuple[Partition, int]
"""A message's partition and offset."""


@dataclass(frozen=True, slots=True)
class Retry:
    """End the wait of this held message, of this circuit, or of all circuits (None)."""

    target: Place | Scope | None


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Send this held message to the dead letters."""

    target: Place


@dataclass(frozen=True, slots=True)
class LiftLimit:
    """Let dead letters exceed the limit: by this many, or (None) until a success."""

    letters: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class SkipUnreadable:
    """Skip the unreadable batch at this place."""

    target: Place


@dataclass(frozen=True, slots=True)
class PauseWish:
    """Attempt nothing in `scope`, the whole consumer or a topic, until `until_ms`, UTC."""

    scope: Scope
    until_ms: int
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class EndPause:
    """End the pause of `scope`; of the whole consumer, also those of its topics."""

    scope: Scope

    def ends(self, paused: Scope) -> bool:
        """Whether it ends the pause of this scope."""
        return self.scope in (Scope(), paused)


OperatorRequest: TypeAlias = Retry | GiveUp | LiftLimit | SkipUnreadable | PauseWish | EndPause


@dataclass(frozen=True, slots=True)
class Request:
    """One operator's request; `answer` is the future that they wait for."""

    wish: OperatorRequest
    answer: Future[bool] = field(default_factory=Future)

    @property
    def is_claimed(self) -> bool:
        """Whether it can no longer be cancelled."""
        return self.answer.running()

    def claim(self) -> bool:
        """Claims it, once. False: it was cancelled before, and its waiters know.

        A cancelled request's future must not be touched again.
        """
        return self.is_claimed or self.answer.set_running_or_notify_cancel()

    def set_answer(self, truth: bool) -> None:
        """Answers it, unless it was cancelled before."""
        if self.claim():
            self.answer.set_result(truth)


class Requests:
    """Accepts requests from any thread; the owner thread answers each exactly once.

    `due_at_s` is -inf if there may be any, else inf.
    """

    def __init__(self) -> None:
        # No lock: append and popleft are atomic, and a signal handler may interrupt either.
        self._arrived: deque[Request] = deque()
        self._waiting: list[Request] = []
        self._closed = False
        self.due_at_s = math.inf

    def submit(self, wish: OperatorRequest) -> Future[bool]:
        """Queues a request for the next turn; answers False at once if there will be no turn."""
        request = Request(wish)
        self._arrived.append(request)
        self.due_at_s = -math.inf  # after the append, as the owner resets it before it reads
        # After the append: whichever runs later, this or `close`, finds the request.
        if self._closed:
            self._refuse_all()
        return request.answer

    def pending(self) -> Iterator[Request]:
        """Yields the unanswered requests, in order. They may be answered meanwhile."""
        self.due_at_s = math.inf
        self._waiting += self._taken()
        if self._waiting:
            self.due_at_s = -math.inf
        return iter(tuple(self._waiting))

    def claim(self, request: Request) -> bool:
        """Claims a request, so that it cannot be cancelled. False: it was cancelled before."""
        claimed = request.claim()
        if not claimed:
            self._waiting.remove(request)
        return claimed

    def claimed(self, *wishes: OperatorRequest) -> list[Request]:
        """Returns the claimed requests with one of these wishes."""
        return [each for each in self._waiting if each.is_claimed and each.wish in wishes]

    def answer(self, request: Request, truth: bool) -> None:
        """Answers one. The future's callbacks run now, in this thread."""
        self._waiting.remove(request)
        request.set_answer(truth)

    def close(self) -> None:
        """Ends the queue: everything pending, and everything later, is answered with False."""
        self._closed = True
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            request.set_answer(False)
        self._refuse_all()

    def _refuse_all(self) -> None:
        for request in self._taken():
            request.set_answer(False)

    def _taken(self) -> Iterator[Request]:
        while True:
            try:
                yield self._arrived.popleft()
            except IndexError:  # no check first: another thread may take the last one
                return


def checked_place(topic: object, partition: object, offset: object) -> Place:
    """Raises `UsageError` for impossible coordinates, which would never match a message."""
    if not isinstance(topic, str):
        raise UsageError(f"topic={topic!r}: must be a topic's name, a str")
    return (topic, _number("partition", partition)), _number("offset", offset)


def checked_lift(letters: object, reason: object) -> LiftLimit:
    """Raises `UsageError` for an invalid number of letters, or a missing reason."""
    if letters is not None and (type(letters) is not int or letters < 1):
        raise UsageError(
            f"letters={letters!r}: must be a whole number from 1, or None until a success"
        )
    if not isinstance(reason, str) or not reason.strip():
        raise UsageError(
            f"reason={reason!r}: must be a text; say why the limit is lifted, for the record"
        )
    return LiftLimit(letters, reason)


def checked_pause(for_s: object, reason: object, longest_s: float) -> int:
    """Returns milliseconds. Raises `UsageError` for a pause that may not be, or has no reason."""
    if not isinstance(for_s, int | float) or isinstance(for_s, bool) or not 0 < for_s <= longest_s:
        raise UsageError(
            f"for_s={for_s!r}: must be a number of seconds above 0, and at most group_pause_max_s, "
            f"{longest_s:g}"
        )
    if not isinstance(reason, str) or not reason.strip():
        raise UsageError(f"reason={reason!r}: must be a text; say why it is paused, for the record")
    return round(for_s * 1000)


def refused() -> Future[bool]:
    """The answer about a message that cannot be held."""
    answer: Future[bool] = Future()
    answer.set_result(False)
    return answer


def _number(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(
            f"{name}={value!r}: must be a whole number from 0, as in consumer.circuits"
        )
    return value
