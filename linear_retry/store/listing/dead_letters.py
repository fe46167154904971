"""Pages, counts and ids of dead letters, without their values."""

from dataclasses import dataclass

from sqlalchemy import Connection, func, select, tuple_

from linear_retry.store.database import Database
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
    """Reads dead letters, the latest first; with `after`, those behind that place."""
    # The length does not read the value.
    listed = select(*_LISTED, func.length(dead_letter.c.value).label("value_bytes"))
    listed = listed.where(*wanted.conditions(database, connection)).limit(limit)
    if after is not None:
        listed = listed.where(tuple_(dead_letter.c.died_ms, dead_letter.c.id) < after)
    latest = listed.order_by(dead_letter.c.died_ms.desc(), dead_letter.c.id.desc())
    return [ListedDeadLetter(**row._asdict()) for row in connection.execute(latest)]


def ids(
    database: Database, connection: Connection, wanted: DeadLetterFilter, *, limit: int
) -> list[int]:
    """Reads the ids of at most `limit` dead letters: a change of many is made on these."""
    some = select(dead_letter.c.id).where(*wanted.conditions(database, connection)).limit(limit)
    return list(connection.execute(some).scalars())


def count(
    database: Database,
    connection: Connection,
    wanted: DeadLetterFilter,
    *,
    limit: int | None = None,
) -> int:
    """Counts dead letters, up to `limit`."""
    some = select(dead_letter.c.id).where(*wanted.conditions(database, connection)).limit(limit)
    return connection.execute(select(func.count()).select_from(some.subquery())).scalar_one()
