"""The points at which a member of either line is killed."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

LineName: TypeAlias = Literal["live", "retry"]


@dataclass(frozen=True, slots=True)
class Point:
    """One of them. `Moments` names the moments; this one surely comes so many `times`."""

    line: LineName
    moment: str
    transactional: bool = False
    times: int = 2


_SENDING = (
    "before the letter's produce",
    "after the letter's produce",
    "before the letter's report",
    "after the letter's report",
    "before the store after a letter",
    "after the store after a letter",
    "at SentToRetry",
)
_TRANSACTION = (
    "after begin_transaction",
    "after the letter's produce",
    "before send_offsets_to_transaction",
    "after send_offsets_to_transaction",
    "before commit_transaction",
    "amid commit_transaction",
    "after commit_transaction",
    "at SentToRetry",
)
POINTS: tuple[Point, ...] = (
    # Leaving the line, and taking the next step.
    *(Point("live", moment) for moment in _SENDING),
    *(Point("live", moment, transactional=True) for moment in _TRANSACTION),
    *(Point("retry", moment) for moment in _SENDING),
    *(Point("retry", moment, transactional=True) for moment in _TRANSACTION),
    # Waiting: all polls while nothing is due are alike.
    Point("retry", "before a poll while closed", times=12),
    Point("retry", "after a poll while closed", times=12),
    # Coming back.
    Point("retry", "in the handler", times=6),
    Point("retry", "after the handler"),
    Point("retry", "before the store after the handler"),
    Point("retry", "after the store after the handler"),
    Point("retry", "after the failure of the handler", times=4),
    # The end of the sequence.
    Point("retry", "at DeadLettered", times=1),
)
"""The number of each is its place. New ones go to the end of all: seeds stay what they are."""
