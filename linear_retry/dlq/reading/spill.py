"""Temporary databases for data that is too large for memory."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any, Self

from linear_retry.errors import LinearRetryError


class DiskFullError(LinearRetryError):
    """The temporary file cannot be written."""


@contextmanager
def spilling() -> Iterator[None]:
    """Turns SQLite's error for a full disk, raised inside, into a `DiskFullError`."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise DiskFullError(
            f"the temporary file for the letters cannot be written ({error}); free space, or set "
            "SQLITE_TMPDIR to a directory with enough for all letters"
        ) from error


class Spilled:
    """Tables of a temporary SQLite database. Use it in a `with`.

    It has no name in any directory, and no file at all while its pages fit into the cache; the
    system removes it however the process ends. Nothing outlives the process: no journal, no
    syncing.
    """

    def __init__(self, *tables: str, cache_kib: int = 16_384) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        settings = ("journal_mode = OFF", "synchronous = OFF", f"cache_size = -{cache_kib}")
        for statement in (*(f"PRAGMA {setting}" for setting in settings), *tables, "BEGIN"):
            self._database.execute(statement)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def _write(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        """Executes it with each of `rows`. Raises `DiskFullError` if the file cannot grow."""
        with spilling():
            self._database.executemany(statement, rows)

    def _select(self, statement: str, *arguments: object) -> Iterator[Any]:
        with spilling(), closing(self._database.execute(statement, arguments)) as rows:
            yield from rows

    def _first(self, statement: str, *arguments: object) -> Any:
        with closing(self._database.execute(statement, arguments)) as rows:
            return rows.fetchone()


class SpilledSet(Spilled):
    """A set of texts, in a temporary file if it is large. Use it in a `with`."""

    def __init__(self) -> None:
        super().__init__("CREATE TABLE member (text TEXT PRIMARY KEY) WITHOUT ROWID")

    def add(self, text: str) -> None:
        self._write("INSERT OR IGNORE INTO member VALUES (?)", [(text,)])

    def __contains__(self, text: object) -> bool:
        return self._first("SELECT 1 FROM member WHERE text = ?", text) is not None
