"""Temporary databases for what is too large for memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Self

from linear_retry.errors import LinearRetryError


class DiskFullError(LinearRetryError):
    """The temporary file cannot be written."""


def temporary_database(*statements: str, cache_kib: int = 16_384) -> sqlite3.Connection:
    """A temporary SQLite database, its tables made by `statements`.

    It has no name in any directory, and no file at all while its pages fit into the cache; the
    system removes it however the process ends. It outlives nothing: no journal, no syncing.
    """
    database = sqlite3.connect("", isolation_level=None)
    settings = ("journal_mode = OFF", "synchronous = OFF", f"cache_size = -{cache_kib}")
    for statement in (*(f"PRAGMA {setting}" for setting in settings), *statements):
        database.execute(statement)
    return database


@contextmanager
def spilling() -> Iterator[None]:
    """Turns SQLite's error for a full disk, raised inside, into a `DiskFullError`."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise DiskFullError(
            f"the temporary file for the letters cannot be written ({error}); free room, or set "
            "SQLITE_TMPDIR to a directory that has as much as the letters are large"
        ) from error


class SpilledSet:
    """A set of texts, in a temporary file where it is large. To be used in a `with`."""

    def __init__(self) -> None:
        self._database = temporary_database(
            "CREATE TABLE member (text TEXT PRIMARY KEY) WITHOUT ROWID", "BEGIN"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def add(self, text: str) -> None:
        with spilling():
            self._database.execute("INSERT OR IGNORE INTO member VALUES (?)", (text,))

    def __contains__(self, text: object) -> bool:
        found = self._database.execute("SELECT 1 FROM member WHERE text = ?", (text,))
        with closing(found):
            return found.fetchone() is not None
