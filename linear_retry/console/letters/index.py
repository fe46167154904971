"""The file of an index: the letters of one topic, in SQLite."""

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path

from linear_retry.console.letters import schema
from linear_retry.console.state.state import StateError
from linear_retry.files import printable_path

_BUSY_TIMEOUT_S = 10.0
_CACHE_KIB = 16_384
_SUFFIXES = ("", "-wal", "-shm")


class Index:
    """The file of one topic's index, that only its owner may read. One thread writes to it.

    What it holds can be read from Kafka again: a file that is damaged, or of another version, is
    made again.
    """

    def __init__(self, directory: Path, topic: str) -> None:
        """Opens the file in `directory`. Raises `StateError`."""
        self.topic = topic
        self._damage: sqlite3.Error | None = None
        self.path = directory / _file_name(topic)
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._is_ours():
                self._make_again()
        except (OSError, sqlite3.Error) as error:
            raise StateError(
                f"{printable_path(self.path)}: the index cannot be written ({error}); see --state"
            ) from error

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yields a connection that may write; its statements commit one by one."""
        with closing(self._connect()) as database:
            database.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            yield database

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yields a connection that sees one moment of the index, whatever is written meanwhile.

        Raises `StateError` if the file cannot be read; one that is damaged is made again.
        """
        try:
            with closing(self._connect()) as database:
                database.execute("PRAGMA query_only = ON")
                database.execute("BEGIN")
                yield database
        except sqlite3.Error as error:
            if is_damage(error):
                self._damage = error
            raise StateError(
                f"{printable_path(self.path)}: the index of {self.topic} cannot be read ({error}); "
                "try again, and see --state"
            ) from error

    def check(self) -> None:
        """Raises what has told a reader that the file is damaged."""
        error, self._damage = self._damage, None
        if error is not None:
            raise error

    def remove(self) -> None:
        """Removes the file, and those that SQLite has made beside it."""
        for suffix in _SUFFIXES:
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)

    def mend(self, error: Exception) -> None:
        """Makes the file again if this error says that it is damaged."""
        if is_damage(error):
            self._make_again()

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(self.path, isolation_level=None, timeout=_BUSY_TIMEOUT_S)
        # NORMAL: after a power failure the last letters are read again.
        database.execute("PRAGMA synchronous = NORMAL")
        return database

    def _is_ours(self) -> bool:
        try:
            with closing(self._connect()) as database:
                version = database.execute("PRAGMA user_version").fetchone()[0]
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            return False
        return bool(version == schema.VERSION)

    def _make_again(self) -> None:
        self.remove()
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))  # SQLite's own files follow it
        with self.writing() as database:
            database.execute("PRAGMA journal_mode = WAL")
            with transaction(database):
                make_tables(database)


def remove_others(directory: Path, topics: Iterable[str]) -> None:
    """Removes the indexes of all other topics: they hold keys and errors, and nobody sees them."""
    kept = tuple(map(_file_name, topics))
    for file in directory.glob("letters-*.sqlite*"):
        if not file.name.startswith(kept):
            file.unlink(missing_ok=True)


def _file_name(topic: str) -> str:
    # A topic's name may be as long as a file's, and SQLite needs more names beside it.
    return f"letters-{blake2b(topic.encode(), digest_size=12).hexdigest()}.sqlite"


def is_damage(error: Exception) -> bool:
    """Whether a file is damaged, or no database: a busy one, or a full disk, has a subclass."""
    return type(error) is sqlite3.DatabaseError


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Commits all that is done inside, or nothing."""
    database.execute("BEGIN IMMEDIATE")
    with database:
        yield


def make_tables(database: sqlite3.Connection) -> None:
    """Makes all tables, empty, whatever is there."""
    for name in schema.NAMES:
        database.execute(f"DROP TABLE IF EXISTS {name}")
    for statement in schema.TABLES:
        database.execute(statement)
    with suppress(sqlite3.OperationalError):  # this SQLite cannot: a search reads every letter
        for statement in schema.TRIGRAMS:
            database.execute(statement)
    database.execute(f"PRAGMA user_version = {schema.VERSION}")
