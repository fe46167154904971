"""The search in the text of errors: by trigrams, where the database has them."""

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Index,
    Integer,
    MetaData,
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


def contains(database: Database, connection: Connection, part: str) -> ColumnElement[bool]:
    """Returns the condition that a dead letter's error contains `part`, in upper or lower case."""
    part = stored_text(part)
    if database.is_sqlite and len(part) >= _TRIGRAM and _has_index(connection):
        phrase = '"' + part.replace('"', '""') + '"'
        found = select(column("rowid", Integer)).select_from(table(INDEX))
        return dead_letter.c.id.in_(found.where(column(INDEX).op("MATCH")(phrase)))
    return has_part(dead_letter.c.error, part)


def has_part(text_column: ColumnElement[str], part: str) -> ColumnElement[bool]:
    """Returns the condition that `text_column` contains `part`, in upper or lower case."""
    escaped = part.replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_")
    return text_column.ilike(f"%{escaped}%", escape="\\")


def _has_index(connection: Connection) -> bool:
    wanted = select(table("sqlite_master", column("name"))).where(column("name") == INDEX)
    return connection.execute(wanted).first() is not None
