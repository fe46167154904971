"""What is said where a temporary file cannot grow?"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from linear_retry.errors import LinearRetryError


class NoRoomError(LinearRetryError):
    """The temporary file cannot be written."""


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
