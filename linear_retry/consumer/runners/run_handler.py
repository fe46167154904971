"""Batches of messages to be attempted, and the call of a plain function with each."""

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from operator import is_not, length_hint
from typing import TypeAlias

from linear_retry.consumer.runners.results import Results, UndoneError
from linear_retry.consumer.runners.stop import StopFlag
from linear_retry.errors import UsageError
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import headers_of, place_of
from linear_retry.retry.clock import NowS
from linear_retry.scope import Place


class Batch:
    """Messages that the loop hands out, to be attempted one after another until one fails.

    The runner that attempts them notes the outcome, and the loop applies that: `taken` of them were
    begun, and `handled` of these are done; `error` is what the one after these failed with. One
    that was begun and neither is not done, and does not count as a failure.
    """

    __slots__ = (
        "_contents",
        "_first",
        "begin_by_s",
        "error",
        "handled",
        "messages",
        "number",
        "taken",
    )

    def __init__(
        self, messages: Sequence[Message], number: int = 1, *, begin_by_s: float = math.inf
    ) -> None:
        """`number` is that of the attempt, 1-based, of the first of them.

        Later than `begin_by_s` they may be another member's: none is to be begun.
        """
        self.messages = messages
        self.begin_by_s = begin_by_s
        self.number = number
        self.taken = 0
        self.handled = 0
        self.error: Exception | None = None
        # The loop takes what is done out of `messages`.
        self._first = messages[0] if messages else None
        self._contents = _contents(messages[0]) if messages else ()

    @property
    def last_attempted(self) -> Message:
        """The one that failed or was interrupted, or the last that was done."""
        return self.messages[max(self.taken - 1, 0)]

    @property
    def place(self) -> Place:
        """Where that message is in Kafka."""
        return place_of(self.last_attempted)

    def check_unchanged(self) -> None:
        """Raises `UsageError` where the handler has changed a message: of these, the first.

        What came is gone then, and neither another attempt nor a dead letter could have it. Looking
        at each message would take as long as all else that is done for it; a handler that changes
        messages changes the first of a batch too, and one that is attempted again is always first.
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
        """All but what is still `coming` was begun; and is done, but for one `in_hand`."""
        self.note(len(self.messages) - length_hint(coming), in_hand=in_hand)

    def note(self, taken: int, *, in_hand: bool) -> None:
        """So many were begun; and are done, but for one `in_hand`."""
        self.taken = taken
        self.handled = taken - in_hand

    def note_failed(self, coming: Iterator[Message], error: Exception) -> None:
        """The last that was taken up failed with `error`; all before it are done."""
        # In this order: an interrupt between the two would have the first message of all take the
        # blame, though it is done.
        self.note_taken(coming, in_hand=True)
        self.error = error


def _contents(message: Message) -> tuple[object, ...]:
    """Value, key and each header, to be compared by identity.

    Of a message whose headers were read before (`foreign_group`), so that they are safe to read.
    """
    headers: object = headers_of(message)
    return message.value(), message.key(), *(headers if isinstance(headers, list) else [headers])


Handler: TypeAlias = Callable[[Message], object]


def run(
    turn: Callable[[], Generator[Batch]], handler: Handler, stop: StopFlag, now_s: NowS
) -> None:
    """Call `handler` with each message of each `turn` until a stop is asked for.

    Raises what the loop raises, and `UsageError` where the handler returns what nobody would do,
    and in the child of a fork.
    """
    results = Results()
    while not stop.asked:
        with closing(turn()) as batches:
            for batch in batches:
                try:
                    attempt_all(batch, handler, stop, now_s, results)
                except UndoneError as undone:
                    where = f"{batch.place}: handler={handler!r}"
                    raise UsageError(f"{where} returned {undone}") from None
                if stop.forked:
                    stop.check_process()


def attempt_all(
    batch: Batch, handler: Handler, stop: StopFlag, now_s: NowS, results: Results
) -> None:
    """Message by message, until one fails, the time for a poll has come, or all are handled.

    A success has no bookkeeping of its own: this is the path where every 0.1 µs counts. `finally`:
    also for what is no `Exception`, where the message in hand is not done, and not counted.
    """
    in_hand, coming, harmless = True, iter(batch.messages), results.harmless
    try:
        for message in coming:
            result = handler(message)
            if result is not None and type(result) not in harmless:
                results.check(result)
            if now_s() >= stop.poll_by_s:
                break
        in_hand = False
    except Exception as error:  # noqa: BLE001  (the handler's call: whatever a user may raise)
        batch.note_failed(coming, error)
    finally:
        batch.note_taken(coming, in_hand=in_hand)
