"""What the store holds, in figures."""

from dataclasses import dataclass

from sqlalchemy import Connection, case, func, select

from linear_retry.store.database import Database
from linear_retry.store.records import Service
from linear_retry.store.schema import dead_letter, lane, message

_ERROR_CHARACTERS = 120
"""Errors that begin alike are counted together: behind that there are offsets and times."""
_GROUPS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationCount:
    """The messages that wait for one destination."""

    destination: str
    waiting: int
    due: int
    oldest_due_ms: int
    """The time at which the first of them was, or will be, due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLane:
    """A lane on hold."""

    destination: str
    slot: str
    hold_until_ms: int
    failures: int
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadCount:
    """The dead letters of one reason whose errors begin alike."""

    reason: str
    error: str
    count: int


def waiting(database: Database, connection: Connection, service: Service) -> list[DestinationCount]:
    """Counts the messages that wait, by destination. Reads the index of all of them."""
    is_due = case((message.c.due_ms <= database.now_ms(connection), 1))
    counted = select(
        lane.c.destination,
        func.count().label("waiting"),
        func.count(is_due).label("due"),
        func.min(message.c.due_ms).label("oldest_due_ms"),
    ).join_from(message, lane)
    counted = counted.where(lane.c.service == service).group_by(lane.c.destination)
    rows = connection.execute(counted.order_by(lane.c.destination))
    return [DestinationCount(**row._asdict()) for row in rows]


def held(database: Database, connection: Connection, service: Service) -> list[HeldLane]:
    """Reads the lanes on hold, with the reason; the longest hold first."""
    columns = (lane.c.destination, lane.c.slot, lane.c.hold_until_ms, lane.c.failures, lane.c.error)
    mine = select(*columns).where(lane.c.service == service)
    mine = mine.where(lane.c.hold_until_ms > database.now_ms(connection))
    rows = connection.execute(mine.order_by(lane.c.hold_until_ms.desc(), lane.c.id))
    return [HeldLane(**row._asdict()) for row in rows]


def dead(connection: Connection, service: Service, *, among: int = 100_000) -> list[DeadCount]:
    """Counts the latest dead letters, `among` so many, by reason and error.

    Returns the 100 most frequent, which come first.
    """
    columns = dead_letter.c
    error = func.substr(columns.error, 1, _ERROR_CHARACTERS).label("error")
    latest = select(columns.reason, error).where(columns.service == service)
    latest = latest.order_by(columns.died_ms.desc(), columns.id.desc()).limit(among)
    found = latest.subquery().c
    total = func.count().label("count")
    counted = select(found.reason, found.error, total).group_by(found.reason, found.error)
    frequent = counted.order_by(total.desc(), found.reason, found.error).limit(_GROUPS)
    rows = connection.execute(frequent)
    return [DeadCount(**row._asdict()) for row in rows]
