"""What the store holds, in figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    ScalarSelect,
    func,
    literal,
    select,
    true,
)

from linear_retry.store.database import Database
from linear_retry.store.lanes import OF_LANE, first_ms
from linear_retry.store.records import Service
from linear_retry.store.schema import dead_letter, lane, message

_ERROR_CHARACTERS = 120
"""Errors that begin alike are counted together: behind that there are offsets and times."""
_GROUPS = 100
_LATEST = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationCount:
    """The messages that wait for one destination.

    Of each lane the first 10,000 are counted: to count ten million takes up to a minute.
    """

    destination: str
    waiting: int
    due: int
    is_more: bool
    """Whether a lane may have more than were counted: `waiting` and `due` are the least then."""
    oldest_due_ms: int
    """The time at which the first of them was, or will be, due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLane:
    """A lane whose destination is missing, or refuses its first message."""

    destination: str
    slot: str
    hold_until_ms: int
    """When it is tried again; in the past: it is being tried."""
    failures: int
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadCount:
    """The dead letters of one reason whose errors begin alike."""

    reason: str
    error: str
    count: int


def waiting(
    database: Database, connection: Connection, service: Service, *, a_lane: int = 10_000
) -> list[DestinationCount]:
    """Counts the messages that wait, by destination; of each lane up to `a_lane`."""
    is_due = message.c.due_ms <= database.now_ms(connection)
    database.read_in_order(connection)
    counts = select(
        lane.c.destination,
        _count(true(), a_lane).label("waiting"),
        _count(is_due, a_lane).label("due"),
        first_ms().label("first_ms"),
    ).where(lane.c.service == service)
    rows = [row for row in connection.execute(counts) if row.waiting]
    rows.sort(key=attrgetter("destination"))
    return [
        _count_of(destination, [*of_it], a_lane)
        for destination, of_it in groupby(rows, attrgetter("destination"))
    ]


def _count_of(destination: str, rows: Sequence[Row[Any]], a_lane: int) -> DestinationCount:
    """The sum over its lanes."""
    return DestinationCount(
        destination=destination,
        waiting=sum(row.waiting for row in rows),
        due=sum(row.due for row in rows),
        is_more=any(row.waiting == a_lane for row in rows),
        oldest_due_ms=min(row.first_ms for row in rows),
    )


def _count(condition: ColumnElement[bool], limit: int) -> ScalarSelect[int]:
    """Counts the messages of a lane, up to `limit`."""
    # Ordered as the index: else PostgreSQL reads the whole table for a lane with few.
    some = select(literal(1)).select_from(message).where(*OF_LANE, condition)
    some = some.order_by(message.c.due_ms).limit(limit)
    return select(func.count()).select_from(some.correlate(lane).subquery()).scalar_subquery()


def held(connection: Connection, service: Service) -> list[HeldLane]:
    """Reads the lanes on hold, with the reason; the longest hold first."""
    columns = (lane.c.destination, lane.c.slot, lane.c.hold_until_ms, lane.c.failures, lane.c.error)
    mine = select(*columns).where(lane.c.service == service, lane.c.failures > 0)
    # Not by `hold_until_ms`: one that is refused again and again would be none now and then.
    mine = mine.where(first_ms().is_not(None))
    rows = connection.execute(mine.order_by(lane.c.hold_until_ms.desc(), lane.c.id))
    return [HeldLane(**row._asdict()) for row in rows]


def dead_by_reason(
    connection: Connection, service: Service, *, among: int = _LATEST
) -> dict[str, int]:
    """Counts the dead letters of `service` by reason, of the store's latest `among`."""
    found = _latest(among, dead_letter.c.reason)
    counted = select(found.reason, func.count().label("letters")).group_by(found.reason)
    rows = connection.execute(counted.where(found.service == service))
    return {row.reason: row.letters for row in rows}


def dead(connection: Connection, service: Service, *, among: int = _LATEST) -> list[DeadCount]:
    """Counts the dead letters of `service` by reason and error, of the store's latest `among`.

    Returns the 100 most frequent, which come first.
    """
    error = func.substr(dead_letter.c.error, 1, _ERROR_CHARACTERS).label("error")
    found = _latest(among, dead_letter.c.reason, error)
    total = func.count().label("count")
    counted = select(found.reason, found.error, total).where(found.service == service)
    counted = counted.group_by(found.reason, found.error)
    frequent = counted.order_by(total.desc(), found.reason, found.error).limit(_GROUPS)
    rows = connection.execute(frequent)
    return [DeadCount(**row._asdict()) for row in rows]


def _latest(among: int, *columns: ColumnElement[Any]) -> Any:
    """The columns of the latest dead letters, of all services.

    With the service as a condition, a service without any would have the whole table read.
    """
    latest = select(dead_letter.c.service, *columns)
    latest = latest.order_by(dead_letter.c.died_ms.desc(), dead_letter.c.id.desc())
    return latest.limit(among).subquery().c
