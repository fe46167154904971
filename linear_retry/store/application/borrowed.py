"""Statements of ours on the application's own connection, in its transaction."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.rows import tuple_row
from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    column,
    create_engine,
    func,
    null,
    select,
    table,
    text,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from linear_retry.errors import UsageError
from linear_retry.store.database import Database
from linear_retry.store.migrations import VERSION, check_version, newest_version
from linear_retry.store.schema import setting
from linear_retry.store.sender.identity import STORE_ID


class Borrowing:
    """Lends us the application's connections. Threads may share it.

    Commits nothing and rolls nothing back.
    """

    def __init__(self, database: Database, own_id: str, use: str, otherwise: str) -> None:
        """`own_id` is the id of the store.

        `use` names what needs the transaction, and `otherwise` says what would come of none.
        """
        self._database = database
        self._own_id, self._version = own_id, newest_version()
        self._use = use
        self._begin_first = f"begin a transaction first, or {otherwise}"
        self._began = null() if database.is_sqlite else func.transaction_timestamp()
        self._local = threading.local()
        url = "sqlite://" if database.is_sqlite else "postgresql+psycopg://"
        own: dict[str, Any] = {} if database.is_sqlite else {"use_native_hstore": False}
        # An engine over connections that it does not own: what it closes stays open.
        self._engine = create_engine(
            url,
            creator=lambda: self._local.borrowed,
            poolclass=NullPool,
            hide_parameters=True,
            **own,
        )

    @contextmanager
    def connection(self, transaction: Any) -> Iterator[Connection]:
        """Lends the connection of a transaction of SQLAlchemy, psycopg 3, sqlite3 or Django.

        Raises `UsageError` for anything else, and the errors of that library.
        """
        if isinstance(transaction, Session):
            transaction = transaction.connection()
        if isinstance(transaction, Connection):
            self._check_kind(is_sqlite=transaction.dialect.name == "sqlite")
            yield transaction
            return
        raw = self._raw(transaction)
        self._check_kind(is_sqlite=isinstance(raw, sqlite3.Connection))
        self._local.borrowed = _Borrowed(raw)
        try:
            with self._engine.connect() as connection:
                yield connection
        except DBAPIError as error:
            # The application's handlers know the errors of its own library.
            raise (error.orig or error) from error
        finally:
            del self._local.borrowed

    def check(self, connection: Connection) -> None:
        """Raises unless our tables, of this version, are what the open transaction sees.

        `UsageError` for another database and without a transaction, else `StoreVersionError`. Asked
        each time: the next transaction may be another database's, or see other tables.
        """
        began, are_there = self._row(connection, self._began, self._are_there(connection))
        if not are_there:  # a statement that fails would end the transaction
            check_version(self._database, connection)
        began_again, own_id, version = self._row(
            connection, self._began, STORE_ID, VERSION.c.version_num
        )
        # Whatever the driver says of itself, and a pooler does: statements of one transaction.
        if began_again != began:
            raise self._not_open()
        # Only now: SQLAlchemy begins with the first statement, by the application's own listeners.
        if self._database.is_sqlite and not _is_open(connection.connection.driver_connection):
            raise self._not_open()
        if version != self._version:
            check_version(self._database, connection)
        if own_id != self._own_id or not self._is_in_own_file(connection):
            raise UsageError(
                f"{self._use}: the transaction's database is not the store {self._database}, and "
                "nobody would look for what is stored there; name the transaction's own database "
                "as the store"
            )

    # -- inside ----------------------------------------------------------------------------

    def _not_open(self) -> UsageError:
        return UsageError(
            f"{self._use}: the connection commits each statement; {self._begin_first}"
        )

    def _check_kind(self, *, is_sqlite: bool) -> None:
        if is_sqlite != self._database.is_sqlite:
            kind = "SQLite" if is_sqlite else "another database"
            raise UsageError(
                f"{self._use}: the transaction is of {kind}, not of the store {self._database}; "
                "name the transaction's own database as the store"
            )

    def _is_in_own_file(self, connection: Connection) -> bool:
        """Whether it is our file: a copy has our id, and nobody looks for what is stored there."""
        if not self._database.is_sqlite:
            return True
        main = text("SELECT file FROM pragma_database_list WHERE name = 'main'")
        return self._database.is_in(connection.execute(main).scalar_one())

    def _row(self, connection: Connection, *columns: Any) -> Any:
        # It is the application's own connection, which does not know our schema.
        options = self._database.execution_options
        return connection.execute(select(*columns), execution_options=options).one()

    def _are_there(self, connection: Connection) -> ColumnElement[bool]:
        """Whether the tables that `check` reads are where the transaction looks."""
        names = (setting.name, VERSION.name)
        if self._database.is_sqlite:
            master = table("sqlite_master", column("name"))
            found = select(func.count() == len(names)).where(master.c.name.in_(names))
            return found.scalar_subquery()
        schema = self._database.schema
        quoted = connection.dialect.identifier_preparer.quote_schema(schema) if schema else ""
        where = f"{quoted}." if schema else ""
        return and_(*(func.to_regclass(f"{where}{name}").is_not(None) for name in names))

    def _raw(self, transaction: Any) -> Any:
        """Returns the DBAPI connection of psycopg's, sqlite3's or Django's."""
        if hasattr(transaction, "in_atomic_block"):  # Django's
            if not transaction.in_atomic_block:
                raise UsageError(
                    f"{self._use}: no transaction.atomic() is open; {self._begin_first}"
                )
            transaction = transaction.connection
        if isinstance(transaction, psycopg.Cursor | sqlite3.Cursor):
            transaction = transaction.connection
        if not isinstance(transaction, psycopg.Connection | sqlite3.Connection):
            raise UsageError(
                f"{self._use}: {type(transaction).__name__} is no transaction of SQLAlchemy "
                "(Connection or Session), psycopg 3, sqlite3 or Django; pass one of these"
            )
        return transaction


class _Borrowed:
    """A DBAPI connection of the application's, which is left open and as it was."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def cursor(self) -> Any:
        if isinstance(self._raw, sqlite3.Connection):
            cursor = self._raw.cursor()
            cursor.row_factory = None
            return cursor
        return self._raw.cursor(row_factory=tuple_row)

    def commit(self) -> None:
        """Leaves that to the application."""

    def rollback(self) -> None:
        """Leaves that to the application."""

    def close(self) -> None:
        """Leaves that to the application."""

    def create_function(self, *_: Any, **__: Any) -> None:
        """Leaves a SQLite connection without SQLAlchemy's `regexp`."""

    def add_notice_handler(self, _: Any) -> None:
        """Leaves a psycopg connection without SQLAlchemy's log of notices."""


def _is_open(connection: Any) -> bool:
    """Whether a connection to SQLite is in a transaction, or opens one for our INSERT."""
    # Since Python 3.12: with `autocommit=True` the level means nothing.
    begins = connection.isolation_level is not None
    return connection.in_transaction or (
        begins and getattr(connection, "autocommit", None) is not True
    )
