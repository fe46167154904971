"""How many dead letters came in a row, with no success between them?"""

from __future__ import annotations

from linear_retry.decision import GIVEN_UP


class LettersInARow:
    """Of all partitions of one consumer, as long as it lives: the process's view of an outage.

    Not per partition, and not dropped with one: a bad deployment fails on all of them, and goes on
    doing so when partitions are shared out anew.
    """

    def __init__(self) -> None:
        self.count = 0

    def note(self, reason: str) -> None:
        """A letter has been acknowledged. An operator's word for it ends the row."""
        self.count = 0 if reason == GIVEN_UP else self.count + 1

    def end(self) -> None:
        """Something succeeded."""
        self.count = 0
