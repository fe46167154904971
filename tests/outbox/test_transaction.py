"""The application's row and the message are stored together, or neither is."""

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy import Connection, Engine, create_engine, event, select, text
from sqlalchemy.orm import Session

from linear_retry.errors import StoreVersionError, UsageError
from linear_retry.outbox import Outbox
from linear_retry.store.database import Database
from linear_retry.store.migrations import migrate
from linear_retry.store.schema import message
from linear_retry.store.sender.identity import store_id
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.outbox.conftest import MakeOutbox
from tests.postgres import Postgres
from tests.real_kafka import RealKafka


@pytest.fixture
def outbox(make_outbox: MakeOutbox, down: dict[str, Any]) -> Outbox:
    """One that sends nothing: what matters is what is stored."""
    return make_outbox(down)


@contextmanager
def _engine(url: str) -> Iterator[Engine]:
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    try:
        yield engine
    finally:
        engine.dispose()


def _values(url: str) -> list[bytes | None]:
    database = Database(url)
    with database.reading() as connection:
        rows = connection.execute(select(message.c.value).order_by(message.c.id))
        found = [row.value for row in rows]
    database.close()
    return found


class _GaveUpError(Exception):
    """The application's reason to roll back."""


@contextmanager
def _alchemy(url: str) -> Iterator[Any]:
    with _engine(url) as engine, engine.begin() as connection:
        yield connection


@contextmanager
def _session(url: str) -> Iterator[Any]:
    with _engine(url) as engine, Session(engine) as session, session.begin():
        yield session


@contextmanager
def _psycopg(url: str) -> Iterator[Any]:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        yield connection


@contextmanager
def _psycopg_cursor(url: str) -> Iterator[Any]:
    with (
        psycopg.connect(url, autocommit=True) as connection,
        connection.transaction(),
        connection.cursor() as cursor,
    ):
        yield cursor


@contextmanager
def _sqlite(url: str) -> Iterator[Any]:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    connection.row_factory = sqlite3.Row
    try:
        with connection:
            yield connection
    finally:
        connection.close()


def _kinds(url: str) -> list[Callable[[str], AbstractContextManager[Any]]]:
    own = [_sqlite] if url.startswith("sqlite") else [_psycopg, _psycopg_cursor]
    return [_alchemy, _session, *own]


def test_a_message_is_stored_with_the_transaction(outbox: Outbox, store_url: str) -> None:
    """Whatever the application's library; a commit of its own has the message in it."""
    for kind in _kinds(store_url):
        with kind(store_url) as transaction:
            outbox.add(transaction, "orders", kind.__name__, "key", headers={"a": "1"})
            outbox.add(transaction, "orders", None, partition=3)
    expected = [kind.__name__.encode() for kind in _kinds(store_url)]
    assert expected == [value for value in _values(store_url) if value is not None]
    assert 2 * len(expected) == len(_values(store_url))


def test_nothing_is_stored_when_the_transaction_is_rolled_back(
    outbox: Outbox, store_url: str
) -> None:
    """And the transaction stays the application's until then."""
    for kind in _kinds(store_url):
        with suppress(_GaveUpError), kind(store_url) as transaction:
            outbox.add(transaction, "orders", kind.__name__, "key")
            raise _GaveUpError
    assert [] == _values(store_url)


def test_two_transactions_store_in_one_lane_without_waiting_for_each_other(
    make_outbox: MakeOutbox, down: dict[str, Any], postgres_url: str
) -> None:
    """Even the first two of a new lane, and in the opposite order of keys."""
    outbox = make_outbox(down, store=postgres_url)
    with _engine(postgres_url) as engine, engine.begin() as one, engine.begin() as other:
        other.execute(text("SET LOCAL lock_timeout = '2s'"))
        outbox.add(one, "orders", b"1", b"a")
        outbox.add(other, "orders", b"2", b"b")
        outbox.add(other, "orders", b"3", b"a")
        outbox.add(one, "orders", b"4", b"b")
    assert [b"1", b"2", b"3", b"4"] == sorted(value or b"" for value in _values(postgres_url))


def test_a_transaction_of_another_database_is_refused(
    outbox: Outbox, store_url: str, postgres: Postgres, migrated_postgres: str
) -> None:
    """Nobody would send what it has; without our tables the transaction goes on unharmed."""
    without = postgres.new_database(f"applications_{store_url[:6]}")
    with _psycopg(without) as connection:
        with pytest.raises((StoreVersionError, UsageError), match="store"):
            outbox.add(connection, "orders", b"1")
        connection.execute("SELECT 1")
    copied = postgres.new_database(f"copied_{store_url[:6]}", template=migrated_postgres)
    with _psycopg(copied) as connection, pytest.raises(UsageError, match="store"):
        outbox.add(connection, "orders", b"1")


def test_a_transaction_of_another_database_is_refused_after_one_of_the_stores_own(
    outbox: Outbox, store_url: str, other_url: str
) -> None:
    """The check was made once: then the message was stored where nobody sends, and was lost."""
    for kind in _kinds(store_url):
        with kind(store_url) as transaction:
            outbox.add(transaction, "orders", b"mine", b"k")
        with kind(other_url) as transaction, pytest.raises(UsageError, match="is not the store"):
            outbox.add(transaction, "orders", b"lost", b"k")
    assert [] == _values(other_url)


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_copy_of_the_file_is_another_database(
    outbox: Outbox, sqlite_url: str, tmp_path: Path
) -> None:
    """It has the store's id; the file itself is taken by whatever name."""
    (tmp_path / "link").symlink_to(sqlite_url.removeprefix("sqlite:///"))
    with _sqlite(f"sqlite:///{tmp_path}/link") as transaction:
        outbox.add(transaction, "orders", b"mine", b"k")
    with closing(sqlite3.connect(tmp_path / "link")) as own:
        own.execute(f"VACUUM INTO '{tmp_path}/copy'")
    with (
        _sqlite(f"sqlite:///{tmp_path}/copy") as transaction,
        pytest.raises(UsageError, match="is not the store"),
    ):
        outbox.add(transaction, "orders", b"lost", b"k")


@pytest.fixture
def other_url(store_url: str, tmp_path: Path, postgres: Postgres, migrated_postgres: str) -> str:
    """A database of the same kind, with our tables, that is another store."""
    if store_url.startswith("sqlite"):
        url = f"sqlite:///{tmp_path}/other.sqlite3"
    else:
        url = postgres.new_database("another_store", template=migrated_postgres)
    database = Database(url)
    migrate(database)
    with database.begin() as connection:
        store_id(database, connection)
    database.close()
    return url


def test_tables_that_change_while_it_runs_are_noticed(
    make_outbox: MakeOutbox, down: dict[str, Any], postgres_url: str
) -> None:
    """Another search_path, or another version: the check was made once for all transactions."""
    outbox = make_outbox(down, store=postgres_url)
    with psycopg.connect(postgres_url) as connection:
        outbox.add(connection, "orders", b"1", b"k")
        connection.execute("SET LOCAL search_path = elsewhere")
        with pytest.raises(StoreVersionError, match="has no tables"):
            outbox.add(connection, "orders", b"2", b"k")
        connection.execute("SELECT 1")
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE linear_retry_version SET version_num = '9999'")
        with pytest.raises(StoreVersionError, match="version 9999"):
            outbox.add(connection, "orders", b"3", b"k")
        connection.rollback()
    assert [b"1"] == _values(postgres_url)


def test_what_commits_each_statement_is_refused(outbox: Outbox, store_url: str) -> None:
    """The message would be sent whatever becomes of the rest."""
    is_sqlite = store_url.startswith("sqlite")
    own: sqlite3.Connection | psycopg.Connection = (
        sqlite3.connect(store_url.removeprefix("sqlite:///"), isolation_level=None)
        if is_sqlite
        else psycopg.connect(store_url, autocommit=True)
    )
    with closing(own), pytest.raises(UsageError, match="commits each statement"):
        outbox.add(own, "orders", b"1")
    with pytest.raises(UsageError, match="no transaction of"):
        outbox.add(store_url, "orders", b"1")
    assert [] == _values(store_url)


def test_a_connection_of_sqlalchemy_that_commits_each_statement_is_refused(
    outbox: Outbox, store_url: str
) -> None:
    """With AUTOCOMMIT it has a transaction in name only: what was rolled back was sent."""
    with _engine(store_url) as engine:
        autocommit = engine.execution_options(isolation_level="AUTOCOMMIT")
        with (
            autocommit.begin() as connection,
            pytest.raises(UsageError, match="commits each statement"),
        ):
            outbox.add(connection, "orders", b"1", b"k")
        with (
            Session(autocommit) as session,
            session.begin(),
            pytest.raises(UsageError, match="commits each statement"),
        ):
            outbox.add(session, "orders", b"2", b"k")
    assert [] == _values(store_url)


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_transaction_that_sqlalchemy_begins_by_a_listener(outbox: Outbox, store_url: str) -> None:
    """As its documentation advises for SQLite. It was refused where `add` was its first statement,
    before which nothing is begun."""
    with _engine(store_url) as engine:

        @event.listens_for(engine, "connect")
        def _(connection: Any, __: object) -> None:
            connection.isolation_level = None

        @event.listens_for(engine, "begin")
        def _(connection: Connection) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

        with engine.connect() as connection:
            outbox.add(connection, "orders", b"1", b"k")
            connection.rollback()
            outbox.add(connection, "orders", b"2", b"k")
            connection.commit()
        with Session(engine) as session:
            outbox.add(session, "orders", b"3", b"k")
            session.commit()
    assert [b"2", b"3"] == _values(store_url)


class _Autocommit(sqlite3.Connection):
    """What `sqlite3.connect(autocommit=True)` of Python 3.12 makes, as far as it can be seen."""

    autocommit = True


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_connection_of_python_3_12_that_commits_each_statement_is_refused(
    outbox: Outbox, sqlite_url: str
) -> None:
    """It has an `isolation_level`, which says nothing there; with BEGIN it is in a transaction."""
    path = sqlite_url.removeprefix("sqlite:///")
    is_old = sys.version_info < (3, 12)
    how: dict[str, Any] = {"factory": _Autocommit} if is_old else {"autocommit": True}
    own = sqlite3.connect(path, **how)
    with pytest.raises(UsageError, match="commits each statement"):
        outbox.add(own, "orders", b"1", b"k")
    own.execute("BEGIN IMMEDIATE")
    outbox.add(own, "orders", b"2", b"k")
    own.execute("COMMIT")
    own.close()
    assert [b"2"] == _values(sqlite_url)


def test_an_error_of_the_database_is_the_librarys_own(
    make_outbox: MakeOutbox, down: dict[str, Any], postgres_url: str
) -> None:
    """The application's handlers, such as a retry after a serialization failure, know it."""
    outbox = make_outbox(down, store=postgres_url)
    with psycopg.connect(postgres_url) as connection:
        outbox.add(connection, "orders", b"1")
        connection.rollback()
        connection.execute("SET TRANSACTION READ ONLY")
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            outbox.add(connection, "orders", b"1")


@pytest.mark.broker
@pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
def test_a_message_that_is_committed_late_is_sent(
    make_outbox: MakeOutbox,
    up: dict[str, Any],
    postgres_url: str,
    kafka: RealKafka,
    topic: TopicFactory,
) -> None:
    """Though one that was stored after it, in the same lane, was sent before."""
    name = topic()
    outbox = make_outbox(up, store=postgres_url, sender=True)
    with _engine(postgres_url) as engine, engine.begin() as slow:
        outbox.add(slow, name, b"first", b"k")
        with engine.begin() as quick:
            outbox.add(quick, name, b"second", b"k")
        wait_until(lambda: outbox.counts.sent == 1, "the second is sent", outbox.health)
    wait_until(lambda: outbox.counts.sent == 2, "the first is sent", outbox.health)
    assert [b"second", b"first"] == [each.value() for each in kafka.read(name)]


@pytest.mark.broker
@pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
def test_the_tables_may_have_a_schema_of_their_own(
    make_outbox: MakeOutbox,
    up: dict[str, Any],
    down: dict[str, Any],
    postgres: Postgres,
    kafka: RealKafka,
    topic: TopicFactory,
) -> None:
    """In the application's database, beside its tables: what is stored there is sent."""
    name, url = topic(), postgres.new_database("with_a_schema")
    database = Database(url, schema="retry later")
    migrate(database)
    database.close()
    outbox = make_outbox(down, store=url, schema="retry later")
    outbox.produce(name, b"produced", b"k")
    assert 0 == outbox.flush()
    for kind in _kinds(url):
        with kind(url) as transaction:
            outbox.add(transaction, name, kind.__name__, b"k")
    expected = ["produced", *(kind.__name__ for kind in _kinds(url))]
    sending = make_outbox(up, store=url, schema="retry later", sender=True)
    wait_until(lambda: sending.counts.sent == len(expected), "all are sent", sending.health)
    assert expected == [(each.value() or b"").decode() for each in kafka.read(name)]
