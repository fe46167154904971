"""Holds what operators ask for, until the consumer's thread has answered it."""

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
    """End the wait of this held message, of this circuit whatever it holds, or of all (None)."""

    target: Place | Scope | None


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Send this held message to the dead letters."""

    target: Place


@dataclass(frozen=True, slots=True)
class LiftLimit:
    """Let dead letters go beyond the limit: so many more, or (None) until a success."""

    letters: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class SkipUnreadable:
    """Step over the batch that cannot be read at this place, though it holds no message."""

    target: Place


OperatorRequest: TypeAlias = Retry | GiveUp | LiftLimit | SkipUnreadable


@dataclass(frozen=True, slots=True)
class Request:
    """One wish of an operator's; `answer` is what they wait for."""

    wish: OperatorRequest
    answer: Future[bool] = field(default_factory=Future)

    @property
    def is_claimed(self) -> bool:
        """Whether it can be cancelled no more."""
        return self.answer.running()

    def claim(self) -> bool:
        """False: it was cancelled before, and its waiters know. To be asked once.

        The future of one that was is not to be touched again.
        """
        return self.is_claimed or self.answer.set_running_or_notify_cancel()

    def set_answer(self, truth: bool) -> None:
        """Answer it, unless it was cancelled before."""
        if self.claim():
            self.answer.set_result(truth)


class Requests:
    """Asked from any thread; dealt with and answered by the owner's. Each gets one answer.

    `due_at_s` says whether there may be any: at once, or never.
    """

    def __init__(self) -> None:
        # No lock: an append and a popleft are atomic, and a signal handler may be in the midst.
        self._arrived: deque[Request] = deque()
        self._waiting: list[Request] = []
        self._closed = False
        self.due_at_s = math.inf

    def submit(self, wish: OperatorRequest) -> Future[bool]:
        """To be dealt with in the next turn; False at once where there will be none."""
        request = Request(wish)
        self._arrived.append(request)
        self.due_at_s = -math.inf  # after the append: the owner resets it before it looks
        # After the append: whichever of the two comes later, here or `close`, finds the request.
        if self._closed:
            self._refuse_all()
        return request.answer

    def pending(self) -> Iterator[Request]:
        """Those not answered yet, in the order of asking. They may be answered meanwhile."""
        self.due_at_s = math.inf
        self._waiting += self._taken()
        if self._waiting:
            self.due_at_s = -math.inf
        return iter(tuple(self._waiting))

    def claim(self, request: Request) -> bool:
        """It is being put into effect, and can be cancelled no more. False: it was, before."""
        claimed = request.claim()
        if not claimed:
            self._waiting.remove(request)
        return claimed

    def claimed(self, *wishes: OperatorRequest) -> list[Request]:
        """Those that wait only for what they wish for, which is one of these."""
        return [each for each in self._waiting if each.is_claimed and each.wish in wishes]

    def answer(self, request: Request, truth: bool) -> None:
        """Answer one. What its user has hung on to the future runs now, in this thread."""
        self._waiting.remove(request)
        request.set_answer(truth)

    def close(self) -> None:
        """No turn will come: everything is, and will be, answered with False."""
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
            except IndexError:  # not asked first: another thread may take the last one
                return


def checked_place(topic: object, partition: object, offset: object) -> Place:
    """Raises `UsageError` for what can be no message's coordinates: it would never be found."""
    if not isinstance(topic, str):
        raise UsageError(f"topic={topic!r}: must be a topic's name, a str")
    return (topic, _number("partition", partition)), _number("offset", offset)


def checked_lift(letters: object, reason: object) -> LiftLimit:
    """Raises `UsageError` for what is no number of letters, or no reason."""
    if letters is not None and (type(letters) is not int or letters < 1):
        raise UsageError(
            f"letters={letters!r}: must be a whole number from 1, or None until a success"
        )
    if not isinstance(reason, str) or not reason.strip():
        raise UsageError(
            f"reason={reason!r}: must be a text; say why the limit is lifted, for the record"
        )
    return LiftLimit(letters, reason)


def refused() -> Future[bool]:
    """For a message that nothing can be holding."""
    answer: Future[bool] = Future()
    answer.set_result(False)
    return answer


def _number(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(
            f"{name}={value!r}: must be a whole number from 0, as in consumer.circuits"
        )
    return value
