"""The place of a partition, as its database has it, in each order of what may happen."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import text

from linear_retry.consumer.settings.by_key import order_of
from linear_retry.consumer.settings.inbox import AsksBrokers, PlaceLostError
from linear_retry.errors import BrokerError, StoreVersionError, UsageError
from linear_retry.inbox.places import Places
from linear_retry.retry.clock import SystemClock
from linear_retry.store.database import Database
from linear_retry.store.migrations import migrate
from tests.inbox.effects import Effects, engine_of
from tests.inbox.members import PARTITION, Join, Member, joining, message_at


@pytest.fixture
def join(effects: Effects) -> Iterator[Join]:
    """Makes members, and closes them at the end."""
    with joining(effects) as make:
        yield make


@pytest.fixture
def member(join: Join) -> Member:
    """One that has claimed the partition."""
    found = join()
    assert {PARTITION: None} == found.claim()
    return found


def test_the_next_owner_continues(member: Member, join: Join) -> None:
    """Where the committed transactions of the one before have ended, which writes no more."""
    member.take(5)
    member.take(6)
    with member.effects.engine.connect() as connection, connection.begin() as transaction:
        member.taken(connection, 7)
        transaction.rollback()
    second = join("second")
    assert {PARTITION: 7} == second.claim()
    with pytest.raises(PlaceLostError):
        member.take(7)
    with pytest.raises(PlaceLostError):
        member.places.leave(message_at(7))
    assert [7] == second.take(7)


def test_a_place_that_nobody_has_claimed(join: Join) -> None:
    """Nothing is handled there."""
    with pytest.raises(PlaceLostError):
        join().take(0)


def test_a_commit_whose_answer_was_lost(member: Member) -> None:
    """The message is attempted again, and its effect is there already."""
    member.starts(5)
    member.take(5)
    assert [] == member.take(5)
    assert [6] == member.take(6)


def test_a_batch_of_which_the_first_are_done(member: Member) -> None:
    """The handler gets the others, and the place is behind them."""
    member.starts(0)
    member.take(0, 1, 2)
    assert [] == member.take(0, 1)
    assert [3] == member.take(2, 3)
    assert {PARTITION: 4} == member.claim()


def test_a_log_that_begins_again(member: Member) -> None:
    """Retention or a cut have set the offset back: what comes there is other messages."""
    member.starts(100)
    member.take(100)
    member.starts(40)
    assert [40] == member.take(40)
    assert [] == member.take(40)
    assert {PARTITION: 41} == member.claim()


def test_a_topic_that_was_made_again(member: Member, join: Join) -> None:
    """It has another id: nothing of it was handled."""
    member.take(100)
    assert {PARTITION: None} == join(topic_id="another").claim()


def test_a_letter_whose_offset_is_committed(member: Member) -> None:
    """It was sent; one whose offset is not was not, as far as anybody knows."""
    member.take(4)
    member.places.leave(message_at(5))
    member.committed = 5
    assert {PARTITION: 5} == member.claim()
    member.committed = 6
    assert {PARTITION: 6} == member.claim()
    member.starts(6)
    assert [6] == member.take(6)
    assert {PARTITION: 7} == member.claim()


def test_what_is_passed_over(member: Member) -> None:
    """The place goes forwards with it, and never back."""
    member.take(4)
    member.places.passed({PARTITION: 9, ("others", 3): 4})
    assert {PARTITION: 9} == member.claim()
    member.places.passed({PARTITION: 7})
    assert {PARTITION: 9} == member.claim()


def test_a_database_that_becomes_an_older_copy(member: Member) -> None:
    """What it lacks is handled again, also where no message comes."""
    member.take(4)
    member.take(5)
    assert {} == member.places.lost([PARTITION])
    member.effects.set_place(5)
    assert [PARTITION] == [*member.places.lost([PARTITION])]
    with pytest.raises(PlaceLostError, match="has its place at 5, and had it at 6"):
        member.take(6)
    assert {PARTITION: 5} == member.claim()
    assert {} == member.places.lost([PARTITION])
    assert [5] == member.take(5)


def test_a_place_that_was_claimed_elsewhere_is_seen(member: Member, join: Join) -> None:
    """Before the next message comes."""
    join("second").claim()
    assert [PARTITION] == [*member.places.lost([PARTITION, ("others", 1)])]


def test_an_owner_from_before_a_restore_writes_nothing(member: Member, join: Join) -> None:
    """The copy has an earlier epoch; the next one is nobody's, of whatever was claimed since."""
    first_epoch = member.places._owned[PARTITION].epoch
    second = join("second")
    second.claim()
    second.take(0)
    with member.effects.engine.begin() as connection:
        before = text("UPDATE linear_retry_inbox_place SET epoch = :e")
        connection.execute(before, {"e": first_epoch})
    third = join("third")
    third.claim()
    with pytest.raises(PlaceLostError):
        second.take(1)
    assert [1] == third.take(1)


def test_a_message_that_comes_back(member: Member, join: Join) -> None:
    """Its effect is there once, however often it comes and to whichever member."""
    ours = [("retry-replay-id", b"1"), ("retry-destination", b"orders")]
    with member.effects.engine.begin() as connection:
        first = member.places.take(connection, [message_at(10, ours)])
    second = join("second")
    second.claim()
    with member.effects.engine.begin() as connection:
        again = second.places.take(connection, [message_at(10, ours)])
    assert (1, 0) == (len(first), len(again))


def test_a_transaction_that_is_open(in_postgres: Effects, caplog: pytest.LogCaptureFixture) -> None:
    """The next owner waits for its end, without waiting in the database, which would end that."""
    first, second = Member(in_postgres), Member(in_postgres, "second")
    first.claim()
    with in_postgres.engine.begin() as connection:
        first.taken(connection, 0)
        assert {} == second.claim()
        first.places.passed({PARTITION: 5})  # nor does its own thread wait for its handlers
    assert {PARTITION: 1} == second.claim()
    assert [] == [line for line in caplog.messages if "inbox" in line]
    first.places.close()
    second.places.close()


def test_tables_in_a_schema_of_their_own(in_postgres: Effects) -> None:
    """The application's connection does not know it, and each statement names it."""
    database = Database(in_postgres.url, schema="ours")
    migrate(database)
    places = Places(database, "ledger", "ledger", "first", SystemClock(), order_of(None, "ledger"))
    asks = AsksBrokers(lambda names: dict.fromkeys(names, "id"), lambda *_: False)
    assert {PARTITION: None} == places.claim(asks, [PARTITION])
    back = [("retry-replay-id", b"1"), ("retry-destination", b"orders")]
    for expected in ([3], []):
        with in_postgres.engine.begin() as connection:
            new = places.take(connection, [message_at(3, back)])
        assert expected == [each.offset() for each in new]
    assert [] == in_postgres.places("orders")  # of the other schema
    places.close()


def test_brokers_that_do_not_answer(join: Join) -> None:
    """The place is asked for again."""
    member = join()

    def ask(_: Any) -> Mapping[str, str]:
        raise BrokerError("no answer")

    assert {} == member.places.claim(AsksBrokers(ask, lambda *_: False), [PARTITION])
    assert {PARTITION: None} == member.claim()


@contextmanager
def _autocommit(effects: Effects) -> Iterator[Any]:
    with effects.engine.connect() as connection:
        yield connection.execution_options(isolation_level="AUTOCOMMIT")


@contextmanager
def _another_database(postgres_url: str) -> Iterator[Any]:
    engine = engine_of(postgres_url)
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def test_what_is_refused(join: Join, effects: Effects, postgres_url: str) -> None:
    """A connection that commits each statement, and a transaction of another database."""
    member = join()
    with (
        pytest.raises(UsageError, match="inbox: the connection commits each statement"),
        _autocommit(effects) as connection,
    ):
        member.places.check(connection)
    if "sqlite" in effects.url:
        with (
            pytest.raises(UsageError, match="inbox: the transaction is of another database"),
            _another_database(postgres_url) as connection,
        ):
            member.places.check(connection)


def test_without_tables(tmp_path: Any) -> None:
    """It says which command makes them."""
    url = f"sqlite:///{tmp_path}/empty.sqlite3"
    engine_of(url).connect().close()
    places = Places(
        Database(url), "ledger", "ledger", "first", SystemClock(), order_of(None, "ledger")
    )
    with pytest.raises(StoreVersionError, match="has no tables"):
        places.check_tables()
    places.close()
