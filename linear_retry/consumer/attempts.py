"""How does a loop of the user's own get its messages?"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from threading import get_ident
from types import TracebackType
from typing import Literal

from linear_retry.consumer.clock import NowS
from linear_retry.consumer.loop import Loop
from linear_retry.consumer.signals import deferring_signals
from linear_retry.consumer.stop import StopFlag
from linear_retry.consumer.work import Work
from linear_retry.errors import UsageError
from linear_retry.kafka import Message


class Attempt:
    """One attempt of one message: enter it, handle the message, leave it.

    Leaving it without an exception is success, with an `Exception` a failure, which is swallowed:
    the loop goes on, and applies it when it asks for the next attempt. Anything else that is raised
    (`KeyboardInterrupt`) passes through; the message is not done then, and nothing is counted.
    """

    __slots__ = ("_error", "_message", "_state", "number")

    def __init__(self, message: Message, number: int = 1) -> None:
        """`number` is 1-based: failures of this message so far, plus one."""
        self.number = number
        self._message = message
        self._state: Literal["offered", "entered", "done", "failed", "interrupted"] = "offered"
        self._error: Exception | None = None

    def __enter__(self) -> Message:
        if self._state != "offered":
            raise UsageError(f"{self!r} was entered before; ask the consumer for the next one")
        self._state = "entered"
        return self._message

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is None:
            self._state = "done" if self._error is None else "failed"
            return False
        if not isinstance(error, Exception):
            self._state = "interrupted"
            return False
        self._state, self._error = "failed", error
        return True

    def fail(self, error: Exception) -> None:
        """The attempt has failed with `error`, without raising it. An error raised later counts.

        Raises `UsageError` outside the `with`, and where `error` is no exception.
        """
        if self._state != "entered":
            raise UsageError(f"{self!r}: fail is for the body of its with statement")
        if not isinstance(error, Exception):
            raise UsageError(f"fail({error!r}): an instance of Exception, such as OSError('down')")
        self._error = error

    @property
    def state(self) -> Literal["offered", "entered", "done", "failed", "interrupted"]:
        """What has become of it so far."""
        return self._state

    @property
    def error(self) -> Exception | None:
        """What it failed with."""
        return self._error

    def __repr__(self) -> str:
        message = self._message
        place = f"{message.topic()}[{message.partition()}]@{message.offset()}"
        return f"<attempt {self.number} of {place}, {self._state}>"


class Attempts:
    """The attempts of one consumer, one after another. Its state: the one that is out."""

    def __init__(self, loop: Loop, stop: StopFlag, now_s: NowS) -> None:
        self._loop = loop
        self._stop = stop
        self._now_s = now_s
        self._turn: Generator[Work] | None = None
        self._work: Work | None = None
        self._coming: Iterator[Message] = iter(())
        self._last: Attempt | None = None
        self._thread_id = 0

    def following(self) -> Attempt | None:
        """The next of a batch, where that needs nothing else: the path of every success."""
        last = self._last
        if (
            last is not None
            and last._state == "done"
            and self._now_s() < self._stop.poll_by_s
            and get_ident() == self._thread_id
        ):
            for message in self._coming:
                self._last = last = Attempt(message)
                return last
        return None

    def next(self) -> Attempt | None:
        """Apply what the last attempt came to, then wait for the next; None: a stop was asked for.

        Raises `UsageError` where the last was not entered, or not left; and what the loop raises.
        """
        self.check_left()
        self._note()
        self._thread_id = get_ident()
        while self._turn is not None or not self._stop.asked:
            self._advance()
            if self._work is not None:
                return self._first_of(self._work)
        return None

    def check_left(self) -> None:
        """Raises `UsageError` where an attempt is out: it must never count as a success."""
        last = self._last
        if last is not None and last.state == "offered":
            raise UsageError(
                f"{last!r} was not entered before the next was asked for: nothing says whether its "
                "message is handled; write `with attempt as message:` as the loop's only statement"
            )
        if last is not None and last.state == "entered":
            raise UsageError(f"{last!r} was not left before the next was asked for")

    def settle(self) -> None:
        """Apply what the last attempt came to. One that is out still is not done.

        Raises what applying it raises, as `ExhaustedError`.
        """
        self._note()
        turn, self._turn, self._work = self._turn, None, None
        if turn is not None:
            turn.close()

    # -- inside ----------------------------------------------------------------------------

    def _note(self) -> None:
        work, last = self._work, self._last
        if work is not None and last is not None:
            work.note_taken(self._coming, in_hand=last.state != "done")
            work.error = last.error if last.state == "failed" else None
        self._last = None

    def _advance(self) -> None:
        """One turn of the loop, or the rest of one. Signals are heard between turns.

        `KeyboardInterrupt` in the midst of one could leave a partition paused for ever.
        """
        turn = self._turn = self._turn or self._loop.turn()
        self._work = None
        with deferring_signals():
            try:
                self._work = next(turn, None)
            finally:
                if self._work is None:
                    self._turn = None

    def _first_of(self, work: Work) -> Attempt:
        self._coming = iter(work.messages)
        self._last = Attempt(next(self._coming), work.number)
        return self._last
