"""Counts dead letters in a row, with no success between them."""

from __future__ import annotations

from linear_retry.retry.decision import GIVEN_UP


class ConsecutiveDeadLetters:
    """Of all partitions of one consumer, as long as it lives: the process's view of an outage.

    Not per partition, and not dropped with one: a bad deployment fails on all of them, and goes on
    doing so when partitions are shared out anew.
    """

    def __init__(self) -> None:
        self._count = 0
        self._is_lifted = False
        self._free: int | None = None

    def counted(self, in_doubt: int = 0) -> int:
        """How many the limit is compared with: none while it is lifted.

        `in_doubt` of them were sent, and not acknowledged.
        """
        if self._is_lifted and (self._free is None or in_doubt < self._free):
            return 0
        return self._count + in_doubt

    def note(self, reason: str) -> None:
        """A letter has been acknowledged. An operator's word for it ends the row."""
        self._count = 0 if reason == GIVEN_UP else self._count + 1
        if self._free is not None and reason != GIVEN_UP:
            self._free -= 1

    def end(self) -> None:
        """Something succeeded: the row ends, and the limit holds again."""
        self._count, self._is_lifted, self._free = 0, False, None

    def lift(self, letters: int | None) -> None:
        """The limit does not hold until something succeeds, or for so many letters."""
        self._is_lifted, self._free = True, letters
