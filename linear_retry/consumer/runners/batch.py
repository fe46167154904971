"""A batch of messages to be attempted, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from operator import length_hint

from linear_retry.errors import UsageError
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import contents, is_changed, place_of
from linear_retry.scope import Place


class Batch:
    """Messages that the loop hands out, to be attempted one after another until one fails.

    Whoever attempts them notes what came of it, and the loop applies that: `taken` of them were
    begun, and `handled` of these are done; `error` is what the one after these failed with. One
    that was begun and neither is not done, and does not count as a failure.
    """

    __slots__ = ("_came", "_first", "begin_by_s", "error", "handled", "messages", "number", "taken")

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
        self._came = contents(messages[0]) if messages else ()

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
        message = self._first
        if message is not None and self.taken and is_changed(message, self._came):
            raise UsageError(
                f"{place_of(message)}: the handler has "
                "changed the message (set_value, set_key, set_headers), and another attempt or a "
                "dead letter needs it as it came; keep what you make of it in a variable"
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
