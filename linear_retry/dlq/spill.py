"""Where is kept what is too much for memory, and what is said where that cannot grow?"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from linear_retry.errors import LinearRetryError


class NoRoomError(LinearRetryError):
    """The temporary file cannot be written."""


def scratch(*lines: str, cache_kib: int = 16_384) -> sqlite3.Connection:
    """SQLite's own temporary database, its tables made by `lines`.

    It has no name in any directory, and no file at all while its pages fit into the cache; the
    system removes it however the process ends. It outlives nothing: no journal, no syncing.
    """
    database = sqlite3.connect("", isolation_level=None)
    settings = ("journal_mode = OFF", "synchronous = OFF", f"cache_size = -{cache_kib}")
    for line in (*(f"PRAGMA {setting}" for setting in settings), *lines):
        database.execute(line)
    return database


@contextmanager
def room() -> Iterator[None]:
    """SQLite's error for a full disk, raised inside, becomes a `NoRoomError` with the remedy."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise NoRoomError(
            f"the temporary file for the letters cannot be written ({error}); free room, or set "
            "SQLITE_TMPDIR to a directory that has as much as the letters are large"
        ) from error
