"""The points at which a sender is struck."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """One of them. `repeats`: what was sent before it may be sent once more."""

    moment: str
    nth: int = 1
    repeats: bool = False


POINTS = (
    Point("before the commit of leases"),
    Point("after the commit of leases"),
    Point("after init_transactions"),
    Point("after begin_transaction"),
    Point("before the letter's produce"),
    Point("after the letter's produce", nth=300),
    Point("before commit_transaction"),
    # The transactions of the other leases are committed, and not deleted yet.
    Point("before commit_transaction", nth=3, repeats=True),
    Point("amid commit_transaction", nth=2, repeats=True),
    Point("after commit_transaction", nth=2, repeats=True),
    Point("before the commit of deletions", repeats=True),
    Point("after the commit of deletions"),
    Point("after the commit of low due times"),
)
"""The number of each is its place."""
