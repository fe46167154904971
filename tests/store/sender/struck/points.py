"""The points at which a sender is struck."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """One of them. `repeats`: what was sent before it may be sent once more.

    With several partitions the batches of other leases are under way at the same time.
    """

    moment: str
    nth: int = 1
    repeats: bool = False
    partitions: int = 1


POINTS = (
    Point("before the commit of leases", partitions=3),
    Point("after the commit of leases", partitions=3),
    Point("after init_transactions", partitions=3),
    Point("after begin_transaction"),
    Point("before the letter's produce"),
    Point("after the letter's produce", nth=300),
    Point("after the letter's produce", nth=700, repeats=True, partitions=3),
    Point("before commit_transaction"),
    Point("before commit_transaction", nth=3, repeats=True, partitions=3),
    Point("amid commit_transaction", nth=2, repeats=True, partitions=3),
    Point("after commit_transaction", repeats=True),
    Point("before the commit of deletions", repeats=True, partitions=3),
    Point("after the commit of deletions"),
    Point("after the commit of low due times"),
    Point("after the commit of low due times", repeats=True, partitions=3),
)
"""The number of each is its place."""
