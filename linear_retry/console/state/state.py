"""The console's own database, on disk: what it must know after a restart."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Self, TypeAlias

from linear_retry.errors import LinearRetryError
from linear_retry.files import printable_path

_FILE = "console.sqlite"
_TABLES = """
CREATE TABLE IF NOT EXISTS audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at_ms INTEGER NOT NULL, actor TEXT NOT NULL,
    action TEXT NOT NULL, subject TEXT NOT NULL, why TEXT NOT NULL, outcome TEXT NOT NULL,
    form TEXT UNIQUE);
CREATE TABLE IF NOT EXISTS job (
    id INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT NOT NULL, action TEXT NOT NULL,
    stage TEXT NOT NULL, actor TEXT NOT NULL, why TEXT NOT NULL, created_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL, done INTEGER NOT NULL, total INTEGER NOT NULL,
    outcome TEXT NOT NULL, options TEXT NOT NULL, plan TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS job_letter (
    job INTEGER NOT NULL, name BLOB NOT NULL, PRIMARY KEY (job, name)) WITHOUT ROWID;
"""

Statement: TypeAlias = tuple[str, *tuple[object, ...]]
"""In SQL, and its arguments."""


class StateError(LinearRetryError):
    """The console's own files cannot be used."""


class State:
    """The database: one file that only its owner may read, and only one process has open."""

    def __init__(self, directory: Path) -> None:
        """Creates what is missing. Raises `StateError`."""
        self._file = directory / _FILE
        self._lock = Lock()
        self.trouble: str | None = None
        """Why the last change could not be written; None: it was."""
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self._file, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise self._unusable(str(error.strerror or error)) from error
        with self._errors():
            self._database = sqlite3.connect(
                self._file, isolation_level=None, check_same_thread=False, timeout=2
            )
            # Two servers on one state would take each other's running jobs for interrupted ones.
            for statement in ("locking_mode = EXCLUSIVE", "journal_mode = WAL"):
                self._database.execute(f"PRAGMA {statement}")
            self._database.executescript(_TABLES)
            self._database.execute("BEGIN IMMEDIATE").execute("COMMIT")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._database.close()

    def change(self, statement: str, *arguments: object) -> int:
        """Executes a statement durably; returns the id of a row that it inserted."""
        with self._lock, self._changing():
            return self._database.execute(statement, arguments).lastrowid or 0

    def change_many(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        """Executes a statement with each row, in one transaction."""
        with self._lock, self._changing(), self._database:
            self._database.execute("BEGIN")
            self._database.executemany(statement, rows)

    def change_all(self, statements: Iterable[Statement]) -> None:
        """Executes all statements, or none."""
        with self._lock, self._changing(), self._database:
            self._database.execute("BEGIN")
            for statement, *arguments in statements:
                self._database.execute(statement, arguments)

    def rows(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        """Returns what a query finds."""
        with self._lock, self._errors():
            return self._database.execute(query, arguments).fetchall()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        try:
            with self._errors():
                yield
        except StateError as error:
            self.trouble = str(error)
            raise
        self.trouble = None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise self._unusable("another console has it open; give this one another") from None
            raise self._unusable(str(error)) from error
        except sqlite3.DatabaseError as error:
            raise self._unusable(str(error)) from error

    def _unusable(self, reason: str) -> StateError:
        name = printable_path(self._file)
        return StateError(f"{name}: cannot be used ({reason}); see --state")
