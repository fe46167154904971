"""The place of a partition whose keys are the order, in each order of what may happen."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from sqlalchemy import text

from linear_retry import ByKey
from linear_retry.consumer.settings.inbox import PlaceLostError
from linear_retry.errors import StoreError
from linear_retry.store.application import places
from linear_retry.store.database import Database
from tests.inbox.effects import Effects
from tests.inbox.members import PARTITION, Join, Member, joining, message_at
from tests.kafka_operations import wait_until


@pytest.fixture
def join(in_postgres: Effects) -> Iterator[Join]:
    """Makes members that go by keys."""
    with joining(in_postgres, ByKey()) as make:
        yield make


@pytest.fixture
def member(join: Join) -> Member:
    """One that has claimed the partition, and reads it from offset 100 on."""
    found = join()
    assert {PARTITION: None} == found.claim()
    found.starts(100)
    found.places.passed({PARTITION: 100})
    return found


def _done(member: Member, offset: int, key: bytes) -> bool:
    return member.places.is_done(message_at(offset, key=key))


def test_the_next_owner_knows_what_is_done_of_each_key(member: Member, join: Join) -> None:
    """Beyond the place, which is that of the first message that is not done."""
    assert [101] == member.take(101, key=b"a")
    assert [103] == member.take(103, key=b"a")
    assert [102] == member.take(102, key=b"b")
    second = join("second")
    assert {PARTITION: 100} == second.claim()
    assert [True, True, False] == [_done(second, n, b"a") for n in (101, 103, 104)]
    assert [True, False] == [_done(second, n, b"b") for n in (102, 103)]
    assert not _done(second, 100, b"c")
    with pytest.raises(PlaceLostError):
        member.take(104, key=b"a")
    assert [104] == second.take(104, key=b"a")


def test_handlers_of_other_keys_do_not_wait(member: Member) -> None:
    """Nor does the consumer for them, when it writes the place or that a letter leaves."""
    with ExitStack() as open_ones:
        for number, key in ((101, b"a"), (102, b"b")):
            connection = open_ones.enter_context(member.effects.engine.begin())
            assert [number] == member.taken(connection, number, key=key)
        member.places.leave(message_at(100, key=b"c"))
        member.places.passed({PARTITION: 101}, message_at(100, key=b"c"))
        assert [101] == member.effects.places("orders")


def test_a_new_owner_waits_for_all_handlers(member: Member, join: Join) -> None:
    """Whichever keys they have; without waiting in the database."""
    second = join("second")
    with member.effects.engine.begin() as one:
        member.taken(one, 101, key=b"a")
        with member.effects.engine.begin() as other:
            member.taken(other, 102, key=b"b")
            assert {} == second.claim()
        assert {} == second.claim()
    assert {PARTITION: 100} == second.claim()
    assert _done(second, 101, b"a")
    assert _done(second, 102, b"b")


def test_sessions_that_are_silent_are_ended(member: Member) -> None:
    """All that have the place, and no others."""
    (row,) = [owned.row for owned in member.places._owned.values()]
    database = Database(member.effects.url)
    with ExitStack() as given_back:
        taken = [given_back.enter_context(member.effects.engine.connect()) for _ in range(3)]
        for offset, key, each in ((101, b"a", taken[0]), (102, b"b", taken[1])):
            member.taken(each, offset, key=key)
            given_back.callback(each.invalidate)
        pids = [each.scalar(text("SELECT pg_backend_pid()")) for each in taken]
        with database.begin() as connection:
            assert places.end_holders(connection, database, row)
        alive = text("SELECT pid FROM pg_stat_activity WHERE pid = ANY(:pids)")

        def left() -> list[int]:
            with database.begin() as connection:
                return list(connection.scalars(alive, {"pids": pids}))

        # PostgreSQL answers before they have ended.
        wait_until(lambda: left() == [pids[2]], "two have ended, and the third is there", left)
    database.close()


def test_a_commit_whose_answer_was_lost(member: Member) -> None:
    """The message is attempted again, and its effect is there already."""
    with member.effects.engine.begin() as connection:
        member.taken(connection, 101, key=b"a")
    assert [] == member.take(101, key=b"a")
    assert [102] == member.take(102, key=b"a")


def test_rows_that_the_place_has_passed_go(member: Member) -> None:
    """And a key that has none begins one with its next message."""
    member.take(101, key=b"a")
    member.take(103, key=b"b")
    member.places.passed({PARTITION: 102})
    assert 1 == member.effects.keys()
    assert [104] == member.take(104, key=b"a")
    assert [105] == member.take(105, key=b"b")
    member.places.passed({PARTITION: 106})
    assert 0 == member.effects.keys()


def test_a_row_that_a_handler_has_goes_later(member: Member) -> None:
    """The consumer does not wait for it."""
    member.take(101, key=b"a")
    with member.effects.engine.begin() as connection:
        member.taken(connection, 103, key=b"a")
        member.places.passed({PARTITION: 103})
    assert [103] == member.effects.places("orders")
    member.places.committed([message_at(103, key=b"a")])
    assert [104] == member.take(104, key=b"a")


def test_a_letter_that_has_left(member: Member, join: Join) -> None:
    """As the group's commit tells; else it is sent, as far as anybody knows, for the first time."""
    member.places.leave(message_at(101, key=b"a"))
    second = join("second")
    second.committed = 100
    second.claim()
    assert not _done(second, 101, b"a")
    second.committed = 102
    second.claim()
    assert _done(second, 101, b"a")
    assert not _done(second, 102, b"a")
    third = join("third")
    third.claim()
    assert _done(third, 101, b"a")


def test_what_leaves_stays_noted_while_the_place_moves(member: Member, join: Join) -> None:
    """It is another key's, which the place has not reached."""
    member.places.leave(message_at(105, key=b"a"))
    member.places.passed({PARTITION: 103})
    second = join("second")
    second.committed = 106
    assert {PARTITION: 103} == second.claim()
    assert _done(second, 105, b"a")


def test_a_letter_that_is_noted_late(member: Member, join: Join) -> None:
    """With the place, or with the next letter, where the database was away in between."""
    owned = member.places._owned[PARTITION]
    for offset, key in ((101, b"a"), (102, b"b")):
        owned.ended(message_at(offset, key=key))
    member.places.leave(message_at(103, key=b"c"))
    second = join("second")
    second.claim()
    assert _done(second, 101, b"a")
    assert _done(second, 102, b"b")


def test_a_letter_that_is_noted_late_waits_for_no_handler(member: Member, join: Join) -> None:
    """Of the same key, which may take long."""
    member.places._owned[PARTITION].ended(message_at(101, key=b"a"))
    with member.effects.engine.connect() as connection, connection.begin() as transaction:
        member.taken(connection, 102, key=b"a")
        member.places.passed({PARTITION: 100})
        transaction.rollback()
    member.places.passed({PARTITION: 100})
    second = join("second")
    second.claim()
    assert _done(second, 101, b"a")
    assert not _done(second, 102, b"a")


def test_a_database_that_becomes_an_older_copy(member: Member) -> None:
    """What it lacks of a key is handled again, also where no message of the key comes."""
    member.take(101, key=b"a")
    member.take(102, key=b"b")
    member.take(103, key=b"a")
    assert {} == member.places.lost([PARTITION])
    with member.effects.engine.begin() as connection:
        older = text("UPDATE linear_retry_inbox_key SET next_offset = 102 WHERE next_offset = 104")
        connection.execute(older)
    (why,) = member.places.lost([PARTITION]).values()
    assert "lacks some of what its keys have done" in why
    with pytest.raises(PlaceLostError, match="has its place at 102, and had it at 104"):
        member.take(104, key=b"a")
    assert {PARTITION: 100} == member.claim()
    assert _done(member, 101, b"a")
    assert not _done(member, 103, b"a")
    assert [103] == member.take(103, key=b"a")


def test_an_older_copy_without_the_row(member: Member) -> None:
    """It is no key's first message."""
    member.take(101, key=b"a")
    with member.effects.engine.begin() as connection:
        connection.execute(text("DELETE FROM linear_retry_inbox_key"))
    with pytest.raises(PlaceLostError, match="had it at 102"):
        member.take(103, key=b"a")


def test_a_log_that_begins_again(member: Member) -> None:
    """What is stored beyond is of what was there before, and so is what a handler still writes."""
    member.take(101, key=b"a")
    member.places.passed({PARTITION: 102})
    member.take(103, key=b"b")
    with member.effects.engine.begin() as connection:
        member.taken(connection, 104, key=b"c")
        member.starts(40)
        with pytest.raises(StoreError, match="being set back"):
            member.take(40, key=b"a")
    member.places.passed({PARTITION: 40})
    assert [40] == member.effects.places("orders")
    assert 0 == member.effects.keys()
    assert [40] == member.take(40, key=b"a")
    assert [50] == member.take(50, key=b"b")


def test_a_log_that_was_cut_beyond_the_place(member: Member) -> None:
    """What keys have done beyond is of the part that is gone."""
    member.take(103, key=b"b")
    member.starts(102, is_another_log=True)
    assert [103] == member.take(103, key=b"b")


def test_a_log_whose_beginning_is_gone(member: Member) -> None:
    """What is done of later messages stays done."""
    member.take(109, key=b"a")
    member.starts(105)
    assert _done(member, 109, b"a")


def test_another_order(member: Member, join: Join) -> None:
    """It would not know what is done beyond the place, and waits until nothing is."""
    member.take(101, key=b"a")
    others = [
        join("lines", by_key=None),
        join("unkeyed", by_key=ByKey(unkeyed="any")),
        join("own", by_key=ByKey(key=lambda message: message.value(), key_id="value-1")),
    ]
    assert [{}] * 3 == [other.claim() for other in others]
    member.places.passed({PARTITION: 102})
    assert [{PARTITION: 102}] * 3 == [other.claim() for other in others]


def test_a_place_that_an_operator_sets(member: Member) -> None:
    """All from there on is handled, also what was done of keys."""
    member.take(103, key=b"b")
    database = Database(member.effects.url)
    with database.begin() as connection:
        places.set_place(connection, "ledger", *PARTITION, 101)
    database.close()
    with pytest.raises(PlaceLostError):
        member.take(104, key=b"b")
    assert {PARTITION: 101} == member.claim()
    assert [103] == member.take(103, key=b"b")
