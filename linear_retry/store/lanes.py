"""Lanes: what is sent in order, each with a lease and a lowest due time."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeAlias
from zlib import crc32

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    ScalarSelect,
    func,
    select,
    tuple_,
    update,
)

from linear_retry.store.database import Database
from linear_retry.store.records import Service
from linear_retry.store.schema import lane, message

LEASES = 8
"""The number of leases of a service; each lane has one of them for ever."""

# From `low_due_ms`: an old snapshot keeps the index entries of deleted rows before it.
OF_LANE = (message.c.lane_id == lane.c.id, message.c.due_ms >= lane.c.low_due_ms)
"""The conditions that a message is one of a lane."""

Lane: TypeAlias = tuple[Service, str, str]
"""Service, destination, slot."""


def lease_of(service: Service, destination: str, slot: str) -> int:
    """Returns the number of the lease that a lane belongs to, 0 to `LEASES` - 1."""
    return crc32(f"{service}/{destination}/{slot}".encode("utf-8", "replace")) % LEASES


def get_or_make(
    database: Database, connection: Connection, due_ms: Mapping[Lane, int]
) -> dict[Lane, int]:
    """Returns the ids of these lanes, and makes those that are missing.

    `due_ms` is the smallest due time that is about to be stored in each. Until the transaction ends
    the lanes are locked against a rise of `low_due_ms`, which is at most that time.
    """
    found = _locked(database, connection, _named(due_ms))
    missing = due_ms.keys() - found.keys()
    if missing:
        _make(database, connection, {name: due_ms[name] for name in sorted(missing)})
        found |= _locked(database, connection, _named(missing))
    _lower(database, connection, {found[name]: due for name, due in due_ms.items()})
    return {name: row.id for name, row in found.items()}


def first_ms() -> ScalarSelect[int]:
    """When the first message of a lane is due, for a statement over lanes; NULL if it has none."""
    # With EXISTS, PostgreSQL may read the index of all messages.
    return select(func.min(message.c.due_ms)).where(*OF_LANE).correlate(lane).scalar_subquery()


def waiting(connection: Connection, service: Service) -> dict[tuple[str, str], int]:
    """Returns when the first message of each lane that has any is due, by (destination, slot)."""
    first = first_ms()
    wanted = select(lane.c.destination, lane.c.slot, first.label("first_ms"))
    wanted = wanted.where(lane.c.service == service, first.is_not(None))
    return {(row.destination, row.slot): row.first_ms for row in connection.execute(wanted)}


def lower(database: Database, connection: Connection, due_ms: Mapping[int, int]) -> None:
    """Prepares lanes, by id, for messages that become due at these times; as `get_or_make`."""
    found = _locked(database, connection, lane.c.id.in_(due_ms))
    _lower(database, connection, {row: due_ms[row.id] for row in found.values()})


def end_holds(connection: Connection, lane_ids: Collection[int]) -> None:
    """Lets these lanes be tried again at once; not one whose attempt is being settled just now."""
    held = select(lane.c.id).where(lane.c.id.in_(lane_ids), lane.c.hold_until_ms > 0)
    ids = connection.scalars(held.with_for_update(skip_locked=True, key_share=True)).all()
    if ids:
        connection.execute(update(lane).where(lane.c.id.in_(ids)).values(hold_until_ms=0))


def _named(names: Iterable[Lane]) -> ColumnElement[bool]:
    return tuple_(lane.c.service, lane.c.destination, lane.c.slot).in_(sorted(names))


def _locked(
    database: Database, connection: Connection, which: ColumnElement[bool]
) -> dict[Lane, Row[Any]]:
    """Lanes with `id` and `low_due_ms`, which nobody raises before our commit."""
    wanted = select(lane).where(which)
    # FOR KEY SHARE, as a foreign key's check: writers do not wait for one another.
    locked = wanted.order_by(lane.c.id).with_for_update(read=True, key_share=True)
    rows = connection.execute(locked, execution_options=database.execution_options)
    return {(row.service, row.destination, row.slot): row for row in rows}


def _make(database: Database, connection: Connection, due_ms: Mapping[Lane, int]) -> None:
    rows = [
        {
            "service": service,
            "destination": destination,
            "slot": slot,
            "lease": lease_of(service, destination, slot),
            "low_due_ms": due,
            "hold_until_ms": 0,
            "failures": 0,
        }
        for (service, destination, slot), due in due_ms.items()
    ]
    new = database.insert(lane).values(rows).on_conflict_do_nothing()
    connection.execute(new, execution_options=database.execution_options)


def _lower(database: Database, connection: Connection, due_ms: Mapping[Row[Any], int]) -> None:
    late = [(row.id, due) for row, due in due_ms.items() if due < row.low_due_ms]
    options = database.execution_options
    # One statement each: see `_engine` in database.py.
    for lane_id, due in sorted(late):
        change = update(lane).where(lane.c.id == lane_id, lane.c.low_due_ms > due)
        connection.execute(change.values(low_due_ms=due), execution_options=options)
