"""The search in the text of errors: by trigrams, where the database has them."""

from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Index,
    Integer,
    MetaData,
    Select,
    Table,
    Text,
    column,
    select,
    table,
    text,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateIndex

from linear_retry.store.database import Database
from linear_retry.store.schema import dead_letter, stored_text

INDEX = "linear_retry_dead_letter_error"
_TRIGRAM = 3
"""A text of fewer characters has no trigram."""

_POSTGRESQL = Index(
    INDEX, "error", postgresql_using="gin", postgresql_ops={"error": "gin_trgm_ops"}
)
# Beside the schema's own table, which is the same with the index and without.
Table(dead_letter.name, MetaData(), Column("error", Text), _POSTGRESQL)

_ADDED = f"INSERT INTO {INDEX} (rowid, error) VALUES (new.id, new.error);"
_REMOVED = f"INSERT INTO {INDEX} ({INDEX}, rowid, error) VALUES ('delete', old.id, old.error);"
_SQLITE = (
    f"CREATE VIRTUAL TABLE {INDEX} USING fts5 (error, content='{dead_letter.name}',"
    " content_rowid='id', tokenize='trigram')",
    f"CREATE TRIGGER {INDEX}_added AFTER INSERT ON {dead_letter.name} BEGIN {_ADDED} END",
    f"CREATE TRIGGER {INDEX}_removed AFTER DELETE ON {dead_letter.name} BEGIN {_REMOVED} END",
    f"INSERT INTO {INDEX} ({INDEX}) VALUES ('rebuild')",
)

found = table(INDEX, column("rowid", Integer), column(INDEX))
"""SQLite's index; in a search that is walked, `rowid` is the id of the dead letter."""


def prepare(database: Database, connection: Connection) -> bool:
    """Makes the index unless it is there; returns False if the database refuses one.

    PostgreSQL needs the extension pg_trgm, SQLite needs FTS5 with trigrams (3.34). Without the
    index a search reads every dead letter.
    """
    try:
        with connection.begin_nested():
            if not database.is_sqlite:
                connection.execute(text("CREATE EXTENSION IF NOT EXISTS pg_trgm"))
                connection.execute(CreateIndex(_POSTGRESQL, if_not_exists=True))
            elif not _has_index(connection):
                for statement in _SQLITE:
                    connection.execute(text(statement))
    except DBAPIError:  # no right to create the extension, or a build without it
        return False
    return True


def is_walked(database: Database, connection: Connection, part: str) -> bool:
    """Whether `with_error` finds `part` by SQLite's index, which gives ids one after another."""
    return database.is_sqlite and len(stored_text(part)) >= _TRIGRAM and _has_index(connection)


def with_error(
    database: Database, connection: Connection, letters: Select[Any], part: str
) -> Select[Any]:
    """Returns those of `letters` whose error contains `part`, in upper or lower case."""
    if not is_walked(database, connection, part):
        return letters.where(has_part(dead_letter.c.error, stored_text(part)))
    phrase = '"' + stored_text(part).replace('"', '""') + '"'
    # `+ 0` makes SQLite begin with the index: with `IN` it would collect a million ids for a page.
    this = dead_letter.c.id == found.c.rowid + 0
    return letters.where(found.c[INDEX].op("MATCH")(phrase), this)


def has_part(text_column: ColumnElement[str], part: str) -> ColumnElement[bool]:
    """Returns the condition that `text_column` contains `part`, in upper or lower case."""
    escaped = part.replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_")
    return text_column.ilike(f"%{escaped}%", escape="\\")


def _has_index(connection: Connection) -> bool:
    wanted = select(table("sqlite_master", column("name"))).where(column("name") == INDEX)
    return connection.execute(wanted).first() is not None
