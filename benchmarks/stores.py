"""Empty stores for benchmarks: a PostgreSQL database, and a SQLite file."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from linear_retry.store.database import Database
from linear_retry.store.migrations import migrate
from tests.postgres import Postgres

_numbers = count(1)


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
