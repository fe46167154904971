"""Stores messages through the application's own connection, in its transaction."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.rows import tuple_row
from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from linear_retry.errors import UsageError
from linear_retry.outbox.message import OutboxMessage, content
from linear_retry.store import lanes, messages
from linear_retry.store.database import Database
from linear_retry.store.lanes import Lane
from linear_retry.store.migrations import check_version
from linear_retry.store.records import slot_of
from linear_retry.store.sender.identity import store_id

_OPEN = "begin a transaction first, or the message is sent even if the rest is not committed"


class Transactions:
    """Stores messages in transactions of the application's. Threads may share it.

    Commits nothing and rolls nothing back. Others that store in the same lane do not wait for the
    transaction to end, nor does it wait for the sender.
    """

    def __init__(self, database: Database, own_id: str) -> None:
        """`own_id` is the id of the store whose messages are sent."""
        self._database = database
        self._own_id = own_id
        self._is_checked = False
        self._known: set[Lane] = set()
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

    def add(self, transaction: Any, message: OutboxMessage) -> None:
        """Stores `message`, to be sent once `transaction` is committed.

        Raises `UsageError` for what is no open transaction of the store's database.
        """
        with self._connection(transaction) as connection:
            self._check(connection)
            due = message.due(self._database.now_ms(connection))
            self._make_lane(("outbox", due.destination, due.slot), due.due_ms)
            messages.add(self._database, connection, [due])

    def prepare(self, topic: str, key: bytes | str | None, partition: int | None) -> None:
        """Makes the lane of such a message: `add` then uses the caller's connection alone.

        Raises `UsageError` for a key of another type, and `StoreError`.
        """
        self._make_lane(("outbox", topic, slot_of(content(key, "key"), partition)))

    @contextmanager
    def _connection(self, transaction: Any) -> Iterator[Connection]:
        if isinstance(transaction, Session):
            transaction = transaction.connection()
        if isinstance(transaction, Connection):
            self._check_kind(is_sqlite=transaction.dialect.name == "sqlite")
            yield transaction
            return
        raw = _raw(transaction)
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

    def _check_kind(self, *, is_sqlite: bool) -> None:
        if is_sqlite != self._database.is_sqlite:
            kind = "SQLite" if is_sqlite else "another database"
            raise UsageError(
                f"add: the transaction is of {kind}, not of the store {self._database}; name the "
                "transaction's own database as the store"
            )

    def _check(self, connection: Connection) -> None:
        """Looks for our tables, once: a statement that fails would end the transaction."""
        if self._is_checked:
            return
        check_version(self._database, connection)
        if store_id(self._database, connection) != self._own_id:
            raise UsageError(
                f"add: the transaction's database is not the store {self._database}, and nobody "
                "would send what it has; name the transaction's own database as the store"
            )
        self._is_checked = True

    def _make_lane(self, lane: Lane, due_ms: int | None = None) -> None:
        """Makes a missing lane in a transaction of ours, for what is due then, or from now on.

        In the application's others would wait for its end, or for each other. SQLite has only one
        writer, which is that transaction.
        """
        if lane not in self._known and not self._database.is_sqlite:
            with self._database.begin() as connection:
                due_ms = self._database.now_ms(connection) if due_ms is None else due_ms
                lanes.get_or_make(self._database, connection, {lane: due_ms})
            self._known.add(lane)


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


def _raw(transaction: Any) -> Any:
    """Returns the DBAPI connection of psycopg's, sqlite3's or Django's, in an open transaction."""
    if hasattr(transaction, "in_atomic_block"):  # Django's
        if not transaction.in_atomic_block:
            raise UsageError(f"add: no transaction.atomic() is open; {_OPEN}")
        transaction = transaction.connection
    if isinstance(transaction, psycopg.Cursor | sqlite3.Cursor):
        transaction = transaction.connection
    match transaction:
        case psycopg.Connection():
            idle = transaction.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
            is_open = not (idle and transaction.autocommit)
        case sqlite3.Connection():
            is_open = transaction.in_transaction or transaction.isolation_level is not None
        case _:
            raise UsageError(
                f"add: {type(transaction).__name__} is no transaction of SQLAlchemy (Connection or "
                "Session), psycopg 3, sqlite3 or Django; pass one of these"
            )
    if not is_open:
        raise UsageError(f"add: the connection commits each statement; {_OPEN}")
    return transaction
