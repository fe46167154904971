"""Hands messages, as attempts, to the user's own loop."""

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from operator import length_hint
from types import TracebackType
from typing import Any, Literal, TypeAlias, TypeVar

from linear_retry.consumer.ownership.stop import StopFlag
from linear_retry.consumer.runners.run_handler import Batch
from linear_retry.errors import UsageError
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import place_of
from linear_retry.retry.clock import NowS
from linear_retry.retry.current_attempt import AttemptInfo

_State: TypeAlias = Literal[
    "offered", "entered", "failing", "done", "failed", "interrupted", "overtaken", "withdrawn"
]
_IN_HAND = ("entered", "failing")
Begin: TypeAlias = Callable[[Message], AbstractContextManager[Any]]
"""Begins the transaction of a message in an inbox (`InboxPlaces.transaction`)."""


class _TakenBackError(Exception):
    """Ends a transaction whose attempt has not succeeded: it is rolled back."""


class Attempt:
    """One attempt of one message: enter it, handle the message, leave it.

    Leaving it normally is success. Leaving it with an `Exception` is failure: the exception is
    swallowed, and applied when the loop asks for the next attempt. Any other exception
    (`KeyboardInterrupt`) passes through; the message is then not done, and no failure is counted.
    `number` is 1-based: this message's failures so far, plus one.
    """

    __slots__ = ("_batch", "_error", "_message", "_state", "number")

    # No __init__: its call would be a quarter of an attempt's cost. `Attempts` sets these, and the
    # error if there is one.
    number: int
    _batch: Batch
    _message: Message
    _state: _State
    _error: Exception | None

    def __enter__(self) -> Message:
        """Returns the message. Raises `UsageError` a second time, and after `close`."""
        if self._state != "offered":
            raise UsageError(
                f"{self!r} cannot be entered twice, or after close; ask the consumer for the next"
            )
        self._state = "entered"
        return self._message

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        state = self._state
        if error is None:
            if state == "entered":
                self._state = "done"
                return False
            if state == "failing":
                self._state = "failed"
            elif state == "overtaken":
                raise UsageError(
                    f"{self!r}: another loop was started inside its with statement, and received "
                    "its message again; start that loop after it"
                )
            return False
        if state not in _IN_HAND:  # closed meanwhile: nobody would see it
            return False
        if not isinstance(error, Exception):
            self._state = "interrupted"
            return False
        self._state, self._error = "failed", error
        return True

    def fail(self, error: Exception) -> None:
        """Records that the attempt failed with `error`, without raising it. A later exception wins.

        Raises `UsageError` outside the `with`, and if `error` is not an `Exception`.
        """
        if self._state not in _IN_HAND:
            raise UsageError(
                f"{self!r}: fail was called outside its with statement; call it inside"
            )
        if not isinstance(error, Exception):
            raise UsageError(
                f"fail({error!r}): must be an instance of Exception, such as OSError('down')"
            )
        self._state, self._error = "failing", error

    @property
    def info(self) -> AttemptInfo:
        """What came before this attempt, and what follows if it fails now."""
        return self._batch.info(self._message)

    @property
    def state(self) -> _State:
        """The state of the attempt. `withdrawn`: the consumer was closed before it ended.

        `overtaken`: another loop began before it ended.
        """
        return self._state

    @property
    def error(self) -> Exception | None:
        """The exception that it failed with; None once the next attempt was requested."""
        return self._error if self._state in ("failing", "failed") else None

    @property
    def transaction(self) -> Any:
        """The open transaction of the consumer's inbox; in it the message is noted as done.

        It is committed when the attempt is left normally, and rolled back otherwise. If it cannot
        be committed, the attempt has failed. Raises `UsageError` without an inbox.
        """
        raise UsageError(
            f"{self!r} has no transaction: its consumer has no inbox; write "
            "LinearConsumer(..., inbox=Inbox(engine)), from linear_retry.inbox"
        )

    def _take_back(self) -> None:
        """Rolls back what is still open; an attempt without a transaction has nothing."""

    def __repr__(self) -> str:
        return f"<attempt {self.number} of {place_of(self._message)}, {self._state}>"


class TransactionAttempt(Attempt):
    """An attempt with an open transaction, from when it is offered until it is left."""

    __slots__ = ("_open", "transaction")

    transaction: Any
    _open: AbstractContextManager[Any] | None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        try:
            is_failure = super().__exit__(kind, error, trace)
            if self._state == "done":
                self._commit()
        finally:
            self._take_back()
        return is_failure

    def begin(self, begin: Begin) -> bool:
        """Begins the transaction; False: the message was done before. Raises what that raises."""
        self._open = begin(self._message)
        self.transaction = self._open.__enter__()
        if self.transaction is None:
            self._end()
        return self.transaction is not None

    def _commit(self) -> None:
        self._state = "interrupted"  # as it is if a signal's exception ends this
        try:
            self._end()
        except Exception as error:  # noqa: BLE001  (it is the failure of the attempt)
            self._state, self._error = "failed", error
        else:
            self._state = "done"

    def _take_back(self) -> None:
        if self._open is not None:
            self._end(_TakenBackError())

    def _end(self, error: _TakenBackError | None = None) -> None:
        ending, self._open = self._open, None
        if ending is not None:
            ending.__exit__(None if error is None else type(error), error, None)


_Kind = TypeVar("_Kind", bound=Attempt)


class Attempts:
    """Offers the attempts of one consumer, one after another, and keeps the current one.

    `ready` has the following attempts of a batch, as long as the loop need not run in between.
    """

    def __init__(
        self,
        turn: Callable[[], Generator[Batch]],
        stop: StopFlag,
        now_s: NowS,
        begin: Begin | None = None,
    ) -> None:
        """`turn` is that of the loop; with `begin`, each attempt has a transaction."""
        self._begin_turn = turn
        self._stop = stop
        self._now_s = now_s
        self._turn: Generator[Batch] | None = None
        self._batch: Batch | None = None
        self._coming: Iterator[Message] = iter(())
        self._last: Attempt | None = None
        self._begin_transaction = begin
        self.ready = self._offer(Batch(()))

    def begin(self) -> None:
        """Starts another `for`: an attempt that was entered but not left stays undecided.

        A Ctrl-C at the start of `__exit__` leaves it so, before any of our code can run.
        """
        if self._last is not None and self._last.state in _IN_HAND:
            self._last._state = "overtaken"

    def next(self) -> Attempt | None:
        """Applies the last attempt's outcome, then waits for the next.

        None: a stop was requested, or an interrupt waits to be raised. Raises `UsageError` if the
        last one was not entered, or not left; and what the loop raises.
        """
        self.check_finished()
        self._note()
        while not self._stop.interrupted and (self._turn is not None or not self._stop.asked):
            self._advance()
            if self._batch is not None:
                self.ready = self._offer(self._batch)
                if (attempt := next(self.ready, None)) is not None:
                    return attempt
                self._note()
        return None

    def withdraw(self) -> None:
        """Takes back the attempt just offered, which the user's loop never received."""
        if self._last is not None and self._last.state == "offered":
            self._last._take_back()
            self._last = None
            self.ready.close()

    def check_finished(self) -> None:
        """Raises `UsageError` if an attempt is unfinished: it must never count as a success."""
        last = self._last
        if last is not None and last.state == "offered":
            raise UsageError(
                f"{last!r} was not entered before the next was requested: its message may not be "
                "handled; write `with attempt as message:` as the loop's only statement"
            )
        if last is not None and last.state in _IN_HAND:
            raise UsageError(
                f"{last!r} was not left before the next was requested; leave its with block first"
            )

    def finish(self) -> None:
        """Applies the last attempt's outcome. An unfinished one is not done.

        Raises what applying it raises, such as `ExhaustedError`.
        """
        if self._last is not None and self._last.state in ("offered", *_IN_HAND):
            self._last._state = "withdrawn"
        self._note()
        turn, self._turn, self._batch = self._turn, None, None
        if turn is not None:
            turn.close()

    # -- inside ----------------------------------------------------------------------------

    def _offer(self, batch: Batch) -> Generator[Attempt]:
        """Returns the attempts of a batch, until the loop must run."""
        if self._begin_transaction is None:
            return self._each(batch, Attempt)
        return self._each_begun(batch, self._begin_transaction)

    def _each_begun(self, batch: Batch, begin: Begin) -> Generator[Attempt]:
        """Yields those whose transactions could begin, and which were not done before."""
        for attempt in self._each(batch, TransactionAttempt):
            attempt._state, attempt._open = "withdrawn", None
            try:
                is_new = attempt.begin(begin)
            except Exception as error:  # noqa: BLE001  (the failure of an attempt never offered)
                self._last = None
                batch.note_failed(self._coming, error)
                return
            attempt._state = "offered" if is_new else "done"
            if is_new:
                yield attempt

    def _each(self, batch: Batch, kind: type[_Kind]) -> Generator[_Kind]:
        """Yields the attempts of a batch, until the loop must run: a hot path, each 0.1 µs counts.

        A generator, also because an interrupt inside it ends it.
        """
        number, stop, now_s = batch.number, self._stop, self._now_s
        offered: _State = "offered"
        self._coming = iter(batch.messages)
        for message in self._coming:
            attempt = kind()
            attempt.number = number
            attempt._batch = batch
            attempt._message = message
            attempt._state = offered
            self._last = attempt
            yield attempt
            if attempt._state != "done" or now_s() >= stop.poll_by_s:
                return

    def _note(self) -> None:
        self.ready.close()
        batch, last = self._batch, self._last
        if batch is not None and last is not None:
            taken = len(batch.messages) - length_hint(self._coming)
            if batch.messages[taken - 1] is not last._message:
                taken -= 1  # interrupted before this one was offered: nobody has handled it
            batch.note(taken, in_hand=last.state != "done")
            batch.error = last.error if last.state == "failed" else None
            last._take_back()
            # The user's loop still has this attempt in a variable, for the whole wait.
            last._error = None
        self._last = None

    def _advance(self) -> None:
        """Runs one turn of the loop, or the rest of one."""
        turn = self._turn = self._turn or self._begin_turn()
        self._batch = None
        try:
            self._batch = next(turn, None)
        finally:
            if self._batch is None:
                self._turn = None
