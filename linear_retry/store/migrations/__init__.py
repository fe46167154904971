"""The store's tables: made, brought to this version, and checked."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
from sqlalchemy import Column, Connection, MetaData, Table, Text, inspect, text
from sqlalchemy.schema import CreateSchema

from linear_retry.errors import StoreVersionError
from linear_retry.files import printable_path
from linear_retry.store.database import Database
from linear_retry.store.listing import error_search
from linear_retry.store.migrations import versions

VERSION = Table("linear_retry_version", MetaData(), Column("version_num", Text))
"""Alembic's table with the version of ours, in their schema."""

_LOCK = 0x6C72_7374  # "lrst", as PostgreSQL's advisory locks want a number
_ONE_AT_A_TIME = threading.Lock()


class _Versions(ScriptDirectory):
    """The modules of `versions`, imported: alembic would look for files, and a zip has none."""

    def __init__(self) -> None:
        super().__init__(os.sep)  # a directory that exists is all that it asks for

    def _load_revisions(self) -> Iterator[Script]:
        for found in iter_modules(versions.__path__):
            module = import_module(f"{versions.__name__}.{found.name}")
            yield Script(module, module.revision, found.name)


@dataclass(frozen=True, slots=True)
class Migrated:
    """What `migrate` has done."""

    before: str | None
    """The version before; None if no tables were there."""
    after: str
    is_error_search_indexed: bool
    """Whether a search in the text of errors has an index: pg_trgm, or FTS5."""


def migrate(database: Database) -> Migrated:
    """Creates the tables, or brings them to this version, in one transaction.

    Raises `StoreVersionError` for a store of a newer version, and `StoreError`.
    """
    scripts = _Versions()
    with database.begin() as connection:
        _take_turns(database, connection)
        # IF NOT EXISTS needs the right to make one even where an administrator has made it.
        if database.schema is not None and not inspect(connection).has_schema(database.schema):
            connection.execute(CreateSchema(database.schema))
        before = _version(database, connection)
        _refuse_newer(database, before, scripts)
        _upgrade(database, connection, scripts)
        return Migrated(before, _head(scripts), error_search.prepare(database, connection))


def check_version(database: Database, connection: Connection | None = None) -> None:
    """Raises `StoreVersionError` unless the tables are there and of this version; makes no file.

    Looks where `connection` looks, if one is given: an application's own sees its own database.
    """
    if connection is None and (missing := database.missing_file) is not None:
        raise StoreVersionError(
            f"there is no store at {printable_path(missing)}; name it with --store, or run "
            "`linear-retry scheduler migrate` to create it"
        )
    scripts = _Versions()
    with _given_or_own(database, connection) as found:
        version = _version(database, found)
    _refuse_newer(database, version, scripts)
    if version != _head(scripts):
        state = "has no tables of linear_retry" if version is None else f"is of version {version}"
        where = "" if database.schema is None else f" in schema {database.schema}"
        raise StoreVersionError(
            f"store {database} {state}{where}, must be of version {_head(scripts)}: "
            "run `linear-retry scheduler migrate`"
        )


def newest_version() -> str:
    """Returns the version that the tables have to be of. Reads files."""
    return _head(_Versions())


@contextmanager
def _given_or_own(database: Database, connection: Connection | None) -> Iterator[Connection]:
    if connection is not None:
        yield connection
        return
    with database.reading() as own:
        yield own


def _head(scripts: ScriptDirectory) -> str:
    return str(scripts.get_current_head())


def _options(database: Database) -> dict[str, Any]:
    # Not alembic_version: the application's own migrations may be in the same database.
    return {"version_table": VERSION.name, "version_table_schema": database.schema}


def _version(database: Database, connection: Connection) -> str | None:
    return MigrationContext.configure(connection, opts=_options(database)).get_current_revision()


def _refuse_newer(database: Database, version: str | None, scripts: ScriptDirectory) -> None:
    known = {script.revision for script in scripts.walk_revisions()}
    if version is not None and version not in known:
        raise StoreVersionError(
            f"store {database} is of version {version}, newer than this linear_retry's "
            f"{_head(scripts)}: upgrade linear_retry here"
        )


def _take_turns(database: Database, connection: Connection) -> None:
    """Two that start at once do not both create the tables. SQLite has one writer anyway."""
    if not database.is_sqlite:
        connection.execute(text("SET LOCAL statement_timeout = 0"))  # a new index takes its time
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))


def _upgrade(database: Database, connection: Connection, scripts: ScriptDirectory) -> None:
    def steps(version: Any, _: MigrationContext) -> Any:
        return scripts._upgrade_revs("head", version)  # what `alembic upgrade` itself runs

    # Alembic has one context in a process: two threads would make tables in each other's store.
    with _ONE_AT_A_TIME, EnvironmentContext(Config(), scripts, fn=steps) as environment:
        environment.configure(connection, **_options(database))
        environment.run_migrations()
