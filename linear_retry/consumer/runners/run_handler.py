"""Batches of messages to attempt, and the checks and calls of handlers, plain or of batches."""

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from operator import is_not, length_hint
from typing import Any, Protocol, TypeAlias, TypeVar

from linear_retry.consumer.ownership.stop import StopFlag
from linear_retry.errors import UsageError
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import headers_of, place_of
from linear_retry.retry.callables import (
    UndoneError,
    check_result,
    is_coroutine_function,
    is_generator_function,
    why_not_with,
)
from linear_retry.retry.clock import NowS
from linear_retry.retry.current_attempt import AttemptInfo, answer_by
from linear_retry.retry.failed_attempt import BatchError, release
from linear_retry.scope import Place


class Batch:
    """Messages that the loop hands out, to be attempted one by one until one fails.

    The runner records the outcome, and the loop applies it: `taken` of them were started, and
    `handled` of these are done; `error` is the failure of those in between: of one message, or of
    a whole batch that the handler was given at once (`is_whole`). One that was started but neither
    handled nor failed is not done, and does not count as a failure.
    """

    __slots__ = (
        "_contents",
        "_first",
        "begin_by_s",
        "coming",
        "error",
        "handled",
        "info_of",
        "is_whole",
        "messages",
        "number",
        "taken",
    )

    def __init__(
        self,
        messages: Sequence[Message],
        number: int = 1,
        *,
        begin_by_s: float = math.inf,
        is_whole: bool = False,
        info_of: Callable[[Message], AttemptInfo] | None = None,
    ) -> None:
        """`number` is the first message's attempt number, 1-based.

        After `begin_by_s` they may be another member's: none may be started. `info_of` answers
        handlers that ask about their attempt, in any thread.
        """
        self.messages = messages
        self.coming = iter(messages)
        self.begin_by_s = begin_by_s
        self.is_whole = is_whole
        self.info_of = info_of
        self.number = number
        self.taken = 0
        self.handled = 0
        self.error: Exception | None = None
        # The loop removes what is done from `messages`.
        self._first = messages[0] if messages else None
        self._contents = _contents(messages[0]) if messages else ()

    @property
    def last_attempted(self) -> Message:
        """The message that failed or was interrupted, or else the last one done.

        Of a whole batch the first: it is the same one however many follow it the next time.
        """
        return self.messages[0 if self.is_whole else max(self.taken - 1, 0)]

    @property
    def in_hand(self) -> Message:
        """The message that the handler of `attempt_all` has. For any thread."""
        return self.messages[max(len(self.messages) - length_hint(self.coming) - 1, 0)]

    def info(self, message: Message | None = None) -> AttemptInfo:
        """Returns what is known of the attempt of a message; None: of that in hand.

        For any thread.
        """
        if self.info_of is None:
            raise AssertionError("this batch cannot answer; please report it")
        return self.info_of(self.in_hand if message is None else message)

    @property
    def failed(self) -> Sequence[Message]:
        """The messages that `error` is about: none without one."""
        return () if self.error is None else self.messages[self.handled : self.taken]

    @property
    def place(self) -> Place:
        """The place of `last_attempted` in Kafka."""
        return place_of(self.last_attempted)

    def check_unchanged(self) -> None:
        """Raises `UsageError` if the handler has changed the first message.

        The original is lost then, to another attempt and to a dead letter. Checking every message
        would double the cost per message; a handler that changes messages changes the first of a
        batch too, and a message that is attempted again is always the first.
        """
        message, before = self._first, self._contents
        if message is None or not self.taken:
            return
        now = _contents(message)
        if len(now) != len(before) or any(map(is_not, now, before)):
            raise UsageError(
                f"{place_of(message)}: the handler has "
                "changed the message (set_value, set_key, set_headers), and another attempt or a "
                "dead letter needs it as it came; keep derived values in variables"
            )

    def note_taken(self, coming: Iterator[Message], *, in_hand: bool) -> None:
        """Records that all before those `coming` were started and, except one `in_hand`, done."""
        self.note(len(self.messages) - length_hint(coming), in_hand=in_hand)

    def note(self, taken: int, *, in_hand: bool) -> None:
        """Records that this many were started and, except one `in_hand`, done."""
        self.taken = taken
        self.handled = taken - in_hand

    def note_failed(self, coming: Iterator[Message], error: Exception) -> None:
        """Records that the last one started failed with `error`, and all before it are done."""
        # In this order: an interrupt in between would blame the error on the first message of the
        # batch, though that is done.
        self.note_taken(coming, in_hand=True)
        self.error = error

    def note_failed_from(self, handled: int, taken: int, error: Exception | None = None) -> None:
        """Records that `handled` are done, and those up to `taken` started; failed with `error`."""
        self.handled, self.taken, self.error = handled, taken, error


def _contents(message: Message) -> tuple[object, ...]:
    """Returns value, key and each header, to be compared by identity.

    The headers are safe to read here, as `foreign_group` has read them before.
    """
    headers: object = headers_of(message)
    return message.value(), message.key(), *(headers if isinstance(headers, list) else [headers])


Handler: TypeAlias = Callable[[Message], object]
BatchHandler: TypeAlias = Callable[[list[Message]], object]
TransactionHandler: TypeAlias = Callable[[Any, Any], object]
"""Of a message, or a list, and the open transaction of an inbox."""
H = TypeVar("H")
_KNOWN_TYPES = 64
_TAKES = "one message"


class Results:
    """Checks what the handler of one `run` returns. `harmless` has the types already checked.

    Checking a type costs some 500 ns, so the caller looks into `harmless` first, and only the first
    result of each type is checked. It is bounded: each mock has its own type.
    """

    def __init__(self) -> None:
        self.harmless: set[type] = {type(None)}

    def check(self, result: object) -> None:
        """Raises `UndoneError`."""
        check_result(result)
        if len(self.harmless) < _KNOWN_TYPES:
            self.harmless.add(type(result))


def run(
    turn: Callable[[], Generator[Batch]],
    handler: H,
    attempt: Callable[[Batch, H, Results], None],
    stop: StopFlag,
) -> None:
    """Lets `attempt` call `handler` with each batch of each `turn` until a stop is requested.

    Raises what the loop raises, and `UsageError` if the handler returns work that would not run,
    and in the child of a fork.
    """
    results = Results()
    while not stop.asked:
        with closing(turn()) as batches:
            for batch in batches:
                with in_hand(batch, handler):
                    attempt(batch, handler, results)
                if stop.forked:
                    stop.check_process()


@contextmanager
def in_hand(batch: Batch, handler: object) -> Iterator[None]:
    """Lets the handler ask about its attempts of this batch, as `current_attempt` does.

    Raises `UsageError`, with the place, if the handler returns work that would not run.
    """
    before = answer_by(batch.info)
    try:
        yield
    except UndoneError as undone:
        where = f"{batch.place}: handler={handler!r}"
        raise UsageError(f"{where} returned {undone}") from None
    finally:
        answer_by(before)


def attempt_each(stop: StopFlag, now_s: NowS) -> Callable[[Batch, Handler, Results], None]:
    """`attempt_all` for `run`, until `stop` ends a batch."""
    return lambda batch, handler, results: attempt_all(batch, handler, stop, now_s, results)


class PollBy(Protocol):
    """When the loop wants the batch back, the message in hand being finished."""

    @property
    def poll_by_s(self) -> float: ...


def attempt_all(
    batch: Batch, handler: Handler, stop: PollBy, now_s: NowS, results: Results
) -> None:
    """Calls the handler with each message until one fails, a poll is due, or all are handled.

    No bookkeeping per success: every 0.1 µs counts on this path. `finally` also covers what is not
    an `Exception`: the message in hand is then neither done nor counted as a failure.
    """
    in_hand, coming, harmless = True, batch.coming, results.harmless
    try:
        for message in coming:
            result = handler(message)
            if result is not None and type(result) not in harmless:
                results.check(result)
            if now_s() >= stop.poll_by_s:
                break
        in_hand = False
    except Exception as error:  # noqa: BLE001  (the handler may raise anything)
        batch.note_failed(coming, error)
    finally:
        batch.note_taken(coming, in_hand=in_hand)


def attempt_batch(batch: Batch, handler: BatchHandler, results: Results) -> None:
    """Calls the handler once with all messages of the batch.

    What is not an `Exception` passes through: nothing of the batch is done then, and nothing has
    failed. Raises `UsageError` if a `BatchError` cannot be meant.
    """
    count = len(batch.messages)
    batch.note_failed_from(0, count)
    try:
        # A copy: what the handler does to its list changes nothing here.
        results.check(handler(list(batch.messages)))
    except BatchError as failed:
        _check_meant(failed, batch)
        batch.note_failed_from(failed.index, failed.index + 1, failed.cause)
        release(failed)
    except Exception as error:  # noqa: BLE001  (the handler may raise anything)
        batch.note_failed_from(0, count, error)
    else:
        batch.note(count, in_hand=False)


def _check_meant(failed: BatchError, batch: Batch) -> None:
    index, count = failed.index, len(batch.messages)
    where = f"{place_of(batch.messages[0])}: the handler raised BatchError with"
    # Not True, which is 1: it was meant for something else.
    if type(index) is not int or not 0 <= index < count:
        raise UsageError(
            f"{where} index={index!r} for a batch of {count}: must be the position of the failed "
            "message in its list, from 0 on"
        ) from failed
    if not isinstance(failed.cause, Exception):
        raise UsageError(
            f"{where} cause={failed.cause!r}: must be an instance of Exception, such as "
            "OSError('down')"
        ) from failed


def check_handler(handler: object, takes: str = _TAKES) -> None:
    """Raises `UsageError` if each call would fail, or would count as done without running.

    `takes` names its arguments, joined by "and".
    """
    _check(handler, takes)
    if is_coroutine_function(handler):
        raise UsageError(
            f"handler={handler!r}: a coroutine function would never be awaited; use run_async, or "
            "run_together_async"
        )


def check_async_handler(handler: object, takes: str = _TAKES) -> None:
    """Raises `UsageError` if each call would fail, or return nothing to await."""
    _check(handler, takes)


def _check(handler: object, takes: str) -> None:
    if not callable(handler):
        raise UsageError(f"handler={handler!r}: must be a callable of {takes}")
    if is_generator_function(handler):
        raise UsageError(
            f"handler={handler!r}: a generator function would never run; give a plain function"
        )
    # A TypeError per message would dead-letter the whole topic.
    refusal = why_not_with(handler, takes.count(" and ") + 1)
    if refusal is not None:
        raise UsageError(
            f"handler={handler!r}: it cannot be called with {takes}, by position ({refusal}); wrap "
            "it in a lambda or functools.partial"
        )
