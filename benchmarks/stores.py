"""Stores for benchmarks, in PostgreSQL and in a SQLite file, and messages that fill them."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from sqlalchemy import Connection, text

from benchmarks.topics import PARTITIONS, VALUE_BYTES
from linear_retry.store import messages
from linear_retry.store.database import Database
from linear_retry.store.migrations import migrate
from linear_retry.store.records import NewMessage, Service
from linear_retry.store.schema import message
from tests.postgres import Postgres

SERVICE: Service = "scheduler"
_numbers = count(1)

_COLUMNS = "lane_id, due_ms, key, value, headers, retry_id, stored_ms"
# A statement for each of ten million messages would take an hour.
_FILL = {
    True: "WITH RECURSIVE one(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM one WHERE n < :count) "
    f"INSERT INTO linear_retry_message ({_COLUMNS}) "
    f"SELECT l.id, :due_ms + n, x'6b', zeroblob({VALUE_BYTES}), x'', 'id-' || n, 0 "
    "FROM one CROSS JOIN linear_retry_lane l "
    f"ON l.destination = :topic AND l.slot = CAST(n % {PARTITIONS} AS TEXT)",
    False: f"INSERT INTO linear_retry_message ({_COLUMNS}) "
    f"SELECT l.id, :due_ms + n, 'k', convert_to(repeat('x', {VALUE_BYTES}), 'UTF8'), '', "
    "'id-' || n, 0 FROM generate_series(1, :count) n JOIN linear_retry_lane l "
    f"ON l.destination = :topic AND l.slot = (n % {PARTITIONS})::text",
}


@contextmanager
def postgres_store(server: Postgres) -> Iterator[Database]:
    """A database of its own on the server."""
    with _migrated(Database(server.new_database(f"store_{next(_numbers)}"))) as database:
        yield database


@contextmanager
def sqlite_store() -> Iterator[Database]:
    """A file, until the `with` is left."""
    with (
        tempfile.TemporaryDirectory() as directory,
        _migrated(Database(f"sqlite:///{Path(directory) / 'store.sqlite3'}")) as database,
    ):
        yield database


@contextmanager
def _migrated(database: Database) -> Iterator[Database]:
    migrate(database)
    try:
        yield database
    finally:
        database.close()


def new_message(topic: str, number: int, due_ms: int) -> NewMessage:
    """Returns a message for the topic's partitions in turn."""
    return NewMessage(
        service=SERVICE,
        destination=topic,
        slot=str(number % PARTITIONS),
        due_ms=due_ms,
        key=b"k",
        value=b"x" * VALUE_BYTES,
        retry_id=f"id-{number}",
    )


def add(database: Database, added: list[NewMessage]) -> None:
    """Stores them in a transaction of their own."""
    with database.begin() as connection:
        messages.add(database, connection, added)


def fill(
    database: Database, topic: str, due_ms: int, amount: int, *, is_empty: bool = False
) -> None:
    """Stores about so many for all partitions of the topic alike, one due a millisecond later.

    `is_empty`: nothing else is stored, so that the indexes are made at the end.
    """
    add(database, [new_message(topic, number, due_ms) for number in range(PARTITIONS)])
    with database.begin() as connection:
        if not database.is_sqlite:
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            # Else each row's lane is looked up.
            connection.execute(text("SET LOCAL session_replication_role = replica"))
        indexes = [*message.indexes] if is_empty else []
        for index in indexes:
            index.drop(connection)
        row = {"topic": topic, "due_ms": due_ms, "count": amount}
        connection.execute(text(_FILL[database.is_sqlite]), row)
        for index in indexes:
            index.create(connection)


def stored_bytes(database: Database, connection: Connection) -> int:
    """Returns the size of the table of messages with its indexes; of SQLite, that of the file."""
    if not database.is_sqlite:
        size = "SELECT pg_total_relation_size('linear_retry_message')"
        return int(connection.execute(text(size)).scalar_one())
    pages = connection.execute(text("PRAGMA page_count")).scalar_one()
    return int(pages * connection.execute(text("PRAGMA page_size")).scalar_one())
