"""The connection to the store: PostgreSQL, or a SQLite file."""

import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import Any, TypeAlias

from sqlalchemy import (
    URL,
    BigInteger,
    Connection,
    Engine,
    Table,
    cast,
    create_engine,
    event,
    func,
    make_url,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import (
    ArgumentError,
    InterfaceError,
    InternalError,
    OperationalError,
    ProgrammingError,
)
from sqlalchemy.exc import (
    TimeoutError as PoolTimeoutError,
)
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

from linear_retry.errors import ConfigurationError, StoreError, StoreVersionError
from linear_retry.records.text import MESSAGE_LIMIT_BYTES, first_bytes, one_line

_FileId: TypeAlias = tuple[int, int] | None
"""Device and inode; None for a file that is missing."""

DEFAULT_FILE = "linear-retry.sqlite3"
"""The store when none is named, in the working directory."""

_IDLE_TIMEOUT_MS = 15_000
# The intake and the sender wait for each statement: one that hangs would stop them for ever. One
# that is suspended within a transaction would hold its locks, and with them the others.
_LIMITS = (
    "SET LOCAL statement_timeout = 60000; "
    f"SET LOCAL idle_in_transaction_session_timeout = {_IDLE_TIMEOUT_MS}"
)
# PostgreSQL takes 65,535 parameters; SQLAlchemy composes a statement for each number of rows.
_ROWS_A_STATEMENT = 100
_POOL_TIMEOUT_S = 5.0
_BUSY_TIMEOUT_MS = 10_000
_RULE = "must be postgresql://user:password@host/database or sqlite:///path/to/file"
_NO_PERMISSION = "42501"
_POSTGRESQL_LACKS = ("42P01", "42703", "3F000")  # a table, a column, the schema
_SQLITE_LACKS = ("no such table", "no such column")
_NO_TABLES = (
    "its tables were dropped, or are of another version: restore them, or run "
    "`linear-retry scheduler migrate`, and start again"
)
_PASSING = (OperationalError, InterfaceError, InternalError, PoolTimeoutError)

# A host that vanishes sends no reset: without these libpq waits for two hours.
_LIBPQ = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "application_name": "linear_retry",
}
# FULL: a row counts as stored once its transaction is committed, also when the power fails.
_PRAGMAS = (
    f"busy_timeout={_BUSY_TIMEOUT_MS}",
    "journal_mode=WAL",
    "synchronous=FULL",
    "foreign_keys=ON",
)
_IS_READ_ONLY = "linear_retry_read_only"
# Active, and waiting for its client: within a statement that only comes of a client that stopped.
_END_SILENT = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
    "AND usename = current_user AND application_name = current_setting('application_name') "
    "AND state = 'active' AND wait_event = 'ClientRead' "
    "AND query_start < clock_timestamp() - :silent_ms * interval '1 ms'"
)


class Database:
    """The store's database. `close` it; threads may share one."""

    def __init__(self, url: str | None = None, *, schema: str | None = None) -> None:
        """Connects to nothing yet.

        `url`: `postgresql://user:password@host/database` or `sqlite:///path`; None is a SQLite file
        `linear-retry.sqlite3` in the working directory. `schema`: the PostgreSQL schema of our
        tables; None is the connection's own. Raises `ConfigurationError` for any other URL.
        """
        self._url = _url(url)
        self.is_sqlite = self._url.get_backend_name() == "sqlite"
        if schema is not None and self.is_sqlite:
            raise ConfigurationError(
                f"store {self}: schema is {schema!r}, must be left out: SQLite has no schemas"
            )
        self.schema = schema
        name = self._url.database if self.is_sqlite else None
        # Absolute, as the engine's: a process may change its working directory afterwards.
        self._path = Path(name).absolute() if name and not name.startswith("file:") else None
        self._engine = _engine(self._url, self.execution_options)
        self._files: tuple[_FileId, _FileId] | None = None
        if self._path is not None:
            event.listen(self._engine, "connect", self._note_files)

    @property
    def missing_file(self) -> Path | None:
        """The SQLite file, if nobody has made it yet: a connection would."""
        return None if self._path is None or self._path.exists() else self._path

    @property
    def local_directory(self) -> Path | None:
        """Where the processes of this machine that share the store find each other's files.

        None where there is no directory for temporary files, as in a container that is read-only.
        """
        if self._path is not None:
            return self._path.parent
        try:
            return Path(gettempdir())
        except OSError:
            return None

    def is_in(self, file: str) -> bool:
        """Whether this is the SQLite file of the store, by any name; True for a URI."""
        return self._path is None or _file_id(self._path) == _file_id(Path(file))

    @property
    def execution_options(self) -> Mapping[str, Any]:
        """Options for `execute` of statements over our tables on a connection that is not ours."""
        return {} if self.schema is None else {"schema_translate_map": {None: self.schema}}

    def insert(self, table: Table) -> sqlite.Insert | postgresql.Insert:
        """Returns an `INSERT` that may be given `ON CONFLICT`."""
        return sqlite.insert(table) if self.is_sqlite else postgresql.insert(table)

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Opens a transaction; commits at the end of the `with`, or rolls back.

        Raises `StoreError` if the store cannot be reached, or if it fails for a reason that passes,
        and `StoreVersionError` if it lacks our tables. On SQLite the transaction is the only writer
        from its first moment.
        """
        self._check_files()
        with self.explained(), self._engine.begin() as connection:
            yield connection
        self._check_files()  # else what is committed now would be in no file, and count as stored

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Opens a transaction that reads one snapshot and changes nothing; else as `begin`."""
        self._check_files()
        options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with self.explained(), self._engine.connect() as connection:
            connection.execution_options(**{_IS_READ_ONLY: True} if self.is_sqlite else options)
            yield connection

    def now_ms(self, connection: Connection) -> int:
        """Returns the time by the database's clock, the one clock of all instances."""
        if self.is_sqlite:
            return time.time_ns() // 1_000_000
        clock = func.extract("epoch", func.clock_timestamp()) * 1000
        return connection.execute(select(cast(clock, BigInteger))).scalar_one()

    def read_in_order(self, connection: Connection) -> None:
        """Lets the rest of the transaction read lanes in the order of their index.

        Of a store that grows fast PostgreSQL believes that a lane has few messages, until it is
        analyzed: it would read and sort the whole lane for the first ones.
        """
        if not self.is_sqlite:
            connection.execute(text("SET LOCAL enable_bitmapscan = off"))

    def limit_locks(self, connection: Connection, most_ms: int) -> None:
        """Lets no statement of the rest of the transaction wait for a lock for longer."""
        if not self.is_sqlite:
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {most_ms}")

    def end_silent_sessions(self, connection: Connection) -> None:
        """Ends those of our processes that are suspended in the middle of sending a statement.

        Nothing else takes their locks from them: PostgreSQL's timeouts count no time before the
        last byte of a statement, and a limit for the whole transaction comes with version 17.
        """
        if not self.is_sqlite:
            connection.execute(_END_SILENT, {"silent_ms": _IDLE_TIMEOUT_MS})

    def close(self) -> None:
        """Closes all connections."""
        self._engine.dispose()

    def __str__(self) -> str:
        """The URL without its password."""
        return self._url.set(drivername=self._url.get_backend_name(), query={}).render_as_string()

    def _note_files(self, *_: object) -> None:
        if self._path is None:
            return
        found = _file_ids(self._path)
        if self._files is None or found[0] == self._files[0]:
            self._files = found

    def _check_files(self) -> None:
        """Raises `StoreError` if what is open is not what has the store's name any more.

        Of a file that is deleted or replaced SQLite keeps the old one, as long as it is open.
        """
        if self._files is None or self._path is None:
            return
        (file, log), (now_file, now_log) = self._files, _file_ids(self._path)
        if file == now_file and (log in (None, now_log) or not self._is_open):
            return  # the last connection removes the log with its end, and the next makes another
        self._engine.dispose()
        if now_file is not None:
            self._files = None  # the next attempt opens the file that is there now
        raise StoreError(
            f"store {self}: its file, or the one with -wal, was deleted or replaced while it was "
            "open; stop all that use it before you replace it. A later attempt takes the file that "
            "is there then"
        )

    @property
    def _is_open(self) -> bool:
        """Whether there is any connection."""
        pool = self._engine.pool
        return not isinstance(pool, QueuePool) or pool.checkedin() + pool.checkedout() > 0

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raises for errors of SQLAlchemy what `begin` raises; for connections of others."""
        try:
            yield
        except (*_PASSING, ProgrammingError) as error:
            cause = getattr(error, "orig", None) or error
            reason = reason_of(error)
            if _lacks_tables(cause):
                raise StoreVersionError(f"store {self}: {reason}; {_NO_TABLES}") from error
            if not _passes(error, cause):
                raise  # a wrong statement does not pass
            raise StoreError(f"store {self}: {reason}; a later attempt may succeed") from error


def reason_of(error: BaseException) -> str:
    """Returns what a database has said, in one line and without a row's values."""
    cause = getattr(error, "orig", None) or error
    told, _, _ = str(cause).partition("\nDETAIL:")  # it may hold a row, with its value
    return first_bytes(one_line(" ".join(told.split())), MESSAGE_LIMIT_BYTES)


def _file_ids(path: Path) -> tuple[_FileId, _FileId]:
    """What tells a SQLite file, and its write-ahead log, from others of the same name."""
    return _file_id(path), _file_id(path.with_name(f"{path.name}-wal"))


def _file_id(path: Path) -> _FileId:
    try:
        status = path.stat()
    except OSError:  # it is missing, or its directory is
        return None
    return status.st_dev, status.st_ino


def _lacks_tables(cause: object) -> bool:
    """Whether somebody has dropped our tables, or a file of ours has none."""
    if isinstance(cause, sqlite3.OperationalError):
        return str(cause).startswith(_SQLITE_LACKS)
    return getattr(cause, "sqlstate", None) in _POSTGRESQL_LACKS


def _passes(error: Exception, cause: object) -> bool:
    """Whether it can succeed later; a wrong statement, or one without its table, never does."""
    if isinstance(error, ProgrammingError):
        return getattr(cause, "sqlstate", None) == _NO_PERMISSION  # until somebody grants it
    return getattr(cause, "sqlite_errorcode", None) != sqlite3.SQLITE_ERROR


def _url(text: str | None) -> URL:
    try:
        url = make_url(f"sqlite:///{DEFAULT_FILE}" if text is None else text)
    except (ArgumentError, ValueError):
        # Not `from error`: some versions of SQLAlchemy print the URL, with its password.
        raise ConfigurationError(f"store: the URL cannot be read, {_RULE}") from None
    match url.drivername:
        case "postgresql" | "postgres" | "postgresql+psycopg":
            return url.set(drivername="postgresql+psycopg")
        case "sqlite" if url.database not in (None, "", ":memory:"):
            return url
    # Without the query, in which there may be a password.
    raise ConfigurationError(f"store {url.set(query={}).render_as_string()}: {_RULE}")


def _engine(url: URL, options: Mapping[str, Any]) -> Engine:
    settings: dict[str, Any] = {
        # SQLAlchemy's errors print parameters: keys and values must not get into logs.
        "hide_parameters": True,
        "pool_timeout": _POOL_TIMEOUT_S,
        "execution_options": dict(options),
    }
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, **settings)
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    given: dict[str, Any] = {n: value for n, value in _LIBPQ.items() if n not in url.query}
    # A pooler gives each transaction another session, which has other statements of that name.
    given["prepare_threshold"] = None
    # Not by `executemany`: a process that is suspended within one would hold its locks for
    # as long: in a pipeline PostgreSQL (15) counts no time as idle.
    settings |= {"insertmanyvalues_page_size": _ROWS_A_STATEMENT}
    engine = create_engine(
        url, connect_args=given, pool_pre_ping=True, isolation_level="READ COMMITTED", **settings
    )
    engine.dialect.use_insertmanyvalues_wo_returning = True
    event.listen(engine, "begin", _begin_postgresql)
    return engine


def _begin_postgresql(connection: Connection) -> None:
    # LOCAL: behind a pooler in transaction mode the session is another client's afterwards.
    connection.exec_driver_sql(_LIMITS)


def _set_up_sqlite(connection: Any, _: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # Python's own BEGIN is deferred, and comes too late
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    # Deferred, a reader that becomes a writer fails at once: no busy timeout helps it.
    is_read_only = connection.get_execution_options().get(_IS_READ_ONLY)
    connection.exec_driver_sql("BEGIN" if is_read_only else "BEGIN IMMEDIATE")
