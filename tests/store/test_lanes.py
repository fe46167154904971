"""Lanes are made once, and not raised above a message that is being stored."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select

from linear_retry.errors import StoreError
from linear_retry.store import messages
from linear_retry.store.database import Database
from linear_retry.store.lanes import LEASES, get_or_make, lease_of
from linear_retry.store.records import partition_of, slot_of
from linear_retry.store.schema import lane, message
from tests.patience import PATIENCE_S
from tests.store.contents import new_message


@given(st.none() | st.binary(), st.none() | st.integers(0, 2**31 - 1))
def test_a_slot_is_a_partition_or_a_hash(key: bytes | None, partition: int | None) -> None:
    """A record with a partition comes back to it; any other goes by its key."""
    slot = slot_of(key, partition)
    assert partition == partition_of(slot)
    assert (slot == "any") == (key is None and partition is None)
    assert lease_of("outbox", "orders", slot) in range(LEASES)


def test_slots_and_leases_never_change() -> None:
    """They are in stores: another hash would send one key by two lanes."""
    assert ["key-2", "key-0", "any", "7"] == [
        slot_of(b"abc", None),
        slot_of(b"", None),
        slot_of(None, None),
        slot_of(b"abc", 7),
    ]
    assert [7, 1] == [lease_of("scheduler", "orders", slot) for slot in ("0", "1")]


def test_two_writers_make_each_lane_once(database: Database) -> None:
    """All that both store is there, in lanes that they share."""
    begun = Barrier(4)

    def write(number: int) -> None:
        begun.wait(PATIENCE_S)
        for each in range(5):
            added = [
                new_message(slot=str((slot * 7 + number) % 40), due_ms=-each) for slot in range(40)
            ]
            with database.begin() as connection:
                messages.add(database, connection, added)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    with database.reading() as connection:
        assert (40, -4) == tuple(
            connection.execute(
                select(func.count(), func.max(lane.c.low_due_ms)).select_from(lane)
            ).one()
        )
        assert 800 == connection.execute(select(func.count()).select_from(message)).scalar_one()


def test_writers_do_not_wait_for_one_another(postgres_url: str) -> None:
    """An application's transaction may stay open: others store in its lane meanwhile."""
    with closing(Database(postgres_url)) as database:
        with database.begin() as connection:
            messages.add(database, connection, [new_message(due_ms=5)])
        with database.begin() as one, database.begin() as other:
            messages.add(database, one, [new_message(due_ms=6)])
            messages.add(database, other, [new_message(due_ms=7)])


def test_a_lane_is_not_raised_while_a_message_is_stored(postgres_url: str) -> None:
    """Its lock is refused to whoever would raise `low_due_ms` above the new message."""
    with closing(Database(postgres_url)) as database:
        with database.begin() as connection:
            messages.add(database, connection, [new_message(due_ms=5)])
        with database.begin() as connection:
            messages.add(database, connection, [new_message(due_ms=6)])
            with pytest.raises(StoreError, match="lock"), database.begin() as other:
                other.execute(select(lane).with_for_update(nowait=True))


def test_a_lane_is_locked_before_its_message_is_there(postgres_url: str) -> None:
    """Between the look at `low_due_ms` and the insert nobody raises it."""
    with closing(Database(postgres_url)) as database:
        with database.begin() as connection:
            get_or_make(database, connection, {("outbox", "orders", "any"): 5})
        with database.begin() as connection:
            get_or_make(database, connection, {("outbox", "orders", "any"): 6})
            with pytest.raises(StoreError, match="lock"), database.begin() as other:
                other.execute(select(lane).with_for_update(nowait=True))
