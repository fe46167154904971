"""Pages, counts and ids of dead letters, without their values."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, func, select, tuple_

from linear_retry.store.database import Database
from linear_retry.store.listing import error_search
from linear_retry.store.listing.filters import DeadLetterFilter, Place
from linear_retry.store.records import Service
from linear_retry.store.schema import dead_letter


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedDeadLetter:
    """A dead letter, without its value and headers."""

    id: int
    service: Service
    destination: str
    partition: int | None
    reason: str
    error: str
    key: bytes | None
    value_bytes: int | None
    """None is a tombstone."""
    retry_id: str
    group_id: str | None
    origin: str | None
    died_ms: int

    @property
    def place(self) -> Place:
        return Place(self.died_ms, self.id)


_LISTED = [
    column for column in dead_letter.c if column.name not in ("value", "headers", "timestamp_ms")
]


def page(
    database: Database,
    connection: Connection,
    wanted: DeadLetterFilter,
    *,
    limit: int,
    after: Place | None = None,
) -> list[ListedDeadLetter]:
    """Reads dead letters, the latest first; with `after`, those behind that place.

    A search by error in SQLite has the latest stored first: a clock set back makes a difference.
    """
    # The length does not read the value.
    listed = (*_LISTED, func.length(dead_letter.c.value).label("value_bytes"))
    some = _wanted(database, connection, wanted, *listed).limit(limit)
    if wanted.error is not None and error_search.is_walked(database, connection, wanted.error):
        rows = _rows_found(connection, some, after)
    else:
        rows = _rows(connection, some, after)
    return [ListedDeadLetter(**row._asdict()) for row in rows]


def _rows(connection: Connection, some: Select[Any], after: Place | None) -> Iterable[Row[Any]]:
    if after is not None:
        some = some.where(tuple_(dead_letter.c.died_ms, dead_letter.c.id) < after)
    return connection.execute(some.order_by(dead_letter.c.died_ms.desc(), dead_letter.c.id.desc()))


def _rows_found(
    connection: Connection, some: Select[Any], after: Place | None
) -> Iterable[Row[Any]]:
    """In the order of the index: a million need not be sorted for a page."""
    if after is not None:
        some = some.where(error_search.found.c.rowid < after.id)
    return connection.execute(some.order_by(error_search.found.c.rowid.desc()))


def ids(
    database: Database, connection: Connection, wanted: DeadLetterFilter, *, limit: int
) -> list[int]:
    """Reads the ids of at most `limit` dead letters: a change of many is made on these."""
    some = _wanted(database, connection, wanted, dead_letter.c.id).limit(limit)
    return list(connection.execute(some).scalars())


def count(
    database: Database,
    connection: Connection,
    wanted: DeadLetterFilter,
    *,
    limit: int | None = None,
) -> int:
    """Counts dead letters, up to `limit`."""
    some = _wanted(database, connection, wanted, dead_letter.c.id).limit(limit)
    return connection.execute(select(func.count()).select_from(some.subquery())).scalar_one()


def _wanted(
    database: Database,
    connection: Connection,
    wanted: DeadLetterFilter,
    *columns: ColumnElement[Any],
) -> Select[Any]:
    letters = select(*columns).where(*wanted.conditions())
    if wanted.error is None:
        return letters
    return error_search.with_error(database, connection, letters, wanted.error)
