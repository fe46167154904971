"""Statistics say what waits, what is held and why messages died."""

from dataclasses import replace

from sqlalchemy import update

from linear_retry.store import dead_letters, messages
from linear_retry.store.database import Database
from linear_retry.store.listing import statistics
from linear_retry.store.listing.statistics import DeadCount, DestinationCount, HeldLane
from linear_retry.store.schema import lane
from tests.store.contents import new_dead_letter, new_message

_LATER_MS = 2**53


def test_waiting_messages_are_counted_by_destination(database: Database) -> None:
    """With how many are due, and since when; for one service."""
    with database.begin() as connection:
        times = [("a", 5), ("a", 3), ("a", _LATER_MS), ("b", _LATER_MS)]
        added = [new_message(destination=name, due_ms=due) for name, due in times]
        messages.add(database, connection, [*added, new_message(service="outbox")])
        assert [
            DestinationCount(destination="a", waiting=3, due=2, is_more=False, oldest_due_ms=3),
            DestinationCount(
                destination="b", waiting=1, due=0, is_more=False, oldest_due_ms=_LATER_MS
            ),
        ] == statistics.waiting(database, connection, "scheduler")


def test_a_count_ends_after_so_many_of_a_lane(database: Database) -> None:
    """Ten million messages are not counted for a page; that there are more is said."""
    with database.begin() as connection:
        added = [new_message(slot=slot, due_ms=each) for slot in "01" for each in range(5)]
        messages.add(database, connection, [*added, new_message(destination="b")])
        found = statistics.waiting(database, connection, "scheduler", a_lane=3)
    assert [
        DestinationCount(destination="b", waiting=1, due=1, is_more=False, oldest_due_ms=0),
        DestinationCount(destination="orders", waiting=6, due=6, is_more=True, oldest_due_ms=0),
    ] == found


def test_held_lanes_have_their_reason(database: Database) -> None:
    """Also while they are tried again: one that was refused for days was not held now and then."""
    with database.begin() as connection:
        messages.add(database, connection, [new_message(slot=str(slot)) for slot in range(4)])
        for slot, until_ms in (("1", _LATER_MS), ("2", 1), ("3", _LATER_MS)):
            change = update(lane).where(lane.c.slot == slot)
            connection.execute(change.values(hold_until_ms=until_ms, failures=4, error="refused"))
        # Somebody has deleted the message for which this one was held.
        messages.remove(connection, [4])
        found = statistics.held(connection, "scheduler")
        assert [] == statistics.held(connection, "outbox")
    held = HeldLane(
        destination="orders", slot="1", hold_until_ms=_LATER_MS, failures=4, error="refused"
    )
    assert [held, replace(held, slot="2", hold_until_ms=1)] == found


def test_dead_letters_are_counted_by_reason_and_error(database: Database) -> None:
    """Errors that begin alike count together, the most frequent first; of the latest so many."""
    long = "a" * 120
    with database.begin() as connection:
        texts = [("r", f"{long}{n}") for n in range(3)] + [("r", "b"), ("s", "b"), ("s", "b")]
        letters = [new_dead_letter(reason=reason, error=error) for reason, error in texts]
        dead_letters.add(database, connection, letters)
        found = statistics.dead(connection, "scheduler", among=5)
        reasons = statistics.dead_by_reason(connection, "scheduler", among=5)
        assert [] == statistics.dead(connection, "outbox")
        assert {} == statistics.dead_by_reason(connection, "outbox")
    assert {"r": 3, "s": 2} == reasons
    assert [
        DeadCount(reason="r", error=long, count=2),
        DeadCount(reason="s", error="b", count=2),
        DeadCount(reason="r", error="b", count=1),
    ] == found
