"""Messages that wait: stored, read once they are due, and deleted."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice, zip_longest
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import Connection, Row, Select, case, delete, func, insert, select, true, update
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from linear_retry.errors import LinearRetryError
from linear_retry.store import header_bytes, lanes
from linear_retry.store.database import Database
from linear_retry.store.lanes import Lane
from linear_retry.store.records import NewMessage, Service, StoredMessage
from linear_retry.store.schema import lane, message

_T = TypeVar("_T")

_ROWS_A_STATEMENT = 1000
_WHOLE = select(message, lane.c.service, lane.c.destination, lane.c.slot).join(lane)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much `due` reads: rows in all, rows of one lane, bytes of keys, values and headers."""

    rows: int = 2_000
    rows_a_lane: int = 500
    content_bytes: int = 16 * 1024 * 1024
    """One message is read whatever its size."""


def add(database: Database, connection: Connection, messages: Sequence[NewMessage]) -> None:
    """Stores `messages`, in this order; lanes are made as they are needed.

    On a connection of the application's own too; ours are the tables, the transaction is its.
    """
    due_ms: dict[Lane, int] = {}
    for each in messages:
        name = (each.service, each.destination, each.slot)
        due_ms[name] = min(each.due_ms, due_ms.get(name, each.due_ms))
    ids = lanes.get_or_make(database, connection, due_ms)
    now_ms = database.now_ms(connection)
    rows = [_row(each, ids[each.service, each.destination, each.slot], now_ms) for each in messages]
    if rows:
        connection.execute(insert(message), rows, execution_options=database.execution_options)


def concerns_one(error: Exception) -> bool:
    """Whether `add` fails because of one of its messages, and would store the others alone."""
    if isinstance(error, DBAPIError):
        return isinstance(error, DataError | IntegrityError)
    return not isinstance(error, LinearRetryError)


def _row(each: NewMessage, lane_id: int, now_ms: int) -> dict[str, Any]:
    return {
        "lane_id": lane_id,
        "due_ms": each.due_ms,
        "key": each.key,
        "value": each.value,
        "headers": header_bytes.write(each.headers),
        "timestamp_ms": each.timestamp_ms,
        "retry_id": each.retry_id,
        "group_id": each.group_id,
        "origin": each.origin,
        "stored_ms": now_ms,
    }


def remove_sent(connection: Connection, sent: Sequence[StoredMessage]) -> None:
    """Deletes messages that are in Kafka."""
    # In a copy that was restored meanwhile, the ids are given once more, to messages not yet sent.
    last_ms = max(each.stored_ms for each in sent)
    for some in in_parts(each.id for each in sent):
        these = message.c.id.in_(some) & (message.c.stored_ms <= last_ms)
        connection.execute(delete(message).where(these))


def remove(connection: Connection, ids: Iterable[int]) -> int:
    """Deletes the messages with these ids; returns how many were there."""
    counts = [
        connection.execute(delete(message).where(message.c.id.in_(some))).rowcount
        for some in in_parts(ids)
    ]
    return sum(counts)


def count_due(database: Database, connection: Connection, ids: Iterable[int]) -> int:
    """Counts those with these ids that may be in a batch under way: they are due, and not held."""
    now_ms = database.now_ms(connection)
    due = (message.c.due_ms <= now_ms) & (lane.c.hold_until_ms <= now_ms)
    return sum(
        connection.scalars(
            select(func.count()).select_from(message).join(lane).where(due, message.c.id.in_(some))
        ).one()
        for some in in_parts(ids)
    )


def reschedule(
    database: Database, connection: Connection, ids: Iterable[int], due_ms: int | None = None
) -> int:
    """Makes the messages with these ids due at `due_ms`; returns how many were there.

    Without it now, but one that is due already keeps its place before the later ones of its lane.
    """
    new_ms: Any = due_ms
    if due_ms is None:
        due_ms = database.now_ms(connection)
        new_ms = case((message.c.due_ms > due_ms, due_ms), else_=message.c.due_ms)
    count = 0
    for some in in_parts(ids):
        mine = message.c.id.in_(some)
        lane_ids = connection.execute(select(message.c.lane_id).distinct().where(mine)).scalars()
        lanes.lower(database, connection, dict.fromkeys(lane_ids, due_ms))
        count += connection.execute(update(message).where(mine).values(due_ms=new_ms)).rowcount
    return count


def end_holds(connection: Connection, ids: Iterable[int]) -> None:
    """Lets the lanes of the messages with these ids be tried again at once."""
    for some in in_parts(ids):
        mine = select(message.c.lane_id).distinct().where(message.c.id.in_(some))
        lanes.end_holds(connection, connection.scalars(mine).all())


def edit(database: Database, connection: Connection, edited: StoredMessage) -> str | None:
    """Replaces a message that waits by `edited`, which is what `get` returned with parts replaced.

    It keeps its place in its lane, or its due time in another one. Returns its new id, which it has
    by `with_new_id`; None if it does not wait any more.
    """
    new = edited.with_new_id()
    name = (new.service, new.destination, new.slot)
    lane_id = lanes.get_or_make(database, connection, {name: new.due_ms})[name]
    row = _row(new, lane_id, max(database.now_ms(connection), new.stored_ms) + 1)
    # Later than what is read now was stored: `remove_sent` must not take it for what was sent.
    changed = update(message).where(message.c.id == new.id).values(row)
    return new.retry_id if connection.execute(changed).rowcount else None


def get(connection: Connection, message_id: int) -> StoredMessage | None:
    """Reads a whole message; None if it does not wait any more."""
    return next(iter(_whole(connection, [message_id])), None)


def waiting(
    connection: Connection, service: Service, *, after_id: int = 0, limit: int = 100
) -> list[StoredMessage]:
    """Reads whole messages whether they are due or not, by id: to take all of them elsewhere."""
    wanted = _WHOLE.where(lane.c.service == service, message.c.id > after_id)
    return [stored(row) for row in connection.execute(wanted.order_by(message.c.id).limit(limit))]


def due(
    database: Database,
    connection: Connection,
    service: Service,
    leases: Collection[int],
    limits: Limits = Limits(),
    now_ms: int | None = None,
) -> list[StoredMessage]:
    """Reads messages that are due in the lanes of these leases, by lane, then (due, id).

    Of each lane the first that are due, without a gap; of one that was refused only the first, and
    lanes on hold are left out. If there are more than `limits`, each lane gets its share, and the
    lanes that have waited longest come first.
    `now_ms`: by default the database's time.
    """
    now_ms = database.now_ms(connection) if now_ms is None else now_ms
    database.read_in_order(connection)
    found = _due_lanes(connection, service, leases, now_ms, limits.rows)
    if not found:
        return []
    share = max(1, min(limits.rows_a_lane, limits.rows // len(found)))
    read = _heads_sqlite if database.is_sqlite else _heads_postgresql
    return _whole(connection, _within(read(connection, found, now_ms, share), limits.content_bytes))


def _due_lanes(
    connection: Connection, service: Service, leases: Collection[int], now_ms: int, limit: int
) -> list[Row[Any]]:
    """The lanes of which a message is due, longest overdue first."""
    first_ms = lanes.first_ms()
    open_lanes = (
        select(lane.c.id, lane.c.low_due_ms, lane.c.failures, first_ms.label("first_ms"))
        .where(lane.c.service == service, lane.c.lease.in_(leases))
        .where(lane.c.hold_until_ms <= now_ms)
        .subquery()
    )
    wanted = select(open_lanes.c.id, open_lanes.c.low_due_ms, open_lanes.c.failures)
    wanted = wanted.where(open_lanes.c.first_ms <= now_ms)
    return [*connection.execute(wanted.order_by(open_lanes.c.first_ms).limit(limit))]


_Head: TypeAlias = tuple[int, int]
"""The id of a message, and its size in bytes."""


def _head_of(lane_id: Any, low_due_ms: Any, now_ms: int, limit: Any) -> Select[Any]:
    """The next messages of one lane, without their values."""
    sizes = [func.length(column) for column in (message.c.value, message.c.key)]
    size = sum((func.coalesce(one, 0) for one in sizes), func.length(message.c.headers))
    # The lower bound steps over the index entries of deleted rows, which an old snapshot keeps.
    return (
        select(message.c.id, message.c.lane_id, message.c.due_ms, size.label("bytes"))
        .where(message.c.lane_id == lane_id)
        .where(message.c.due_ms >= low_due_ms, message.c.due_ms <= now_ms)
        .order_by(message.c.due_ms, message.c.id)
        .limit(limit)
    )


def _heads_postgresql(
    connection: Connection, found: Iterable[Row[Any]], now_ms: int, limit: int
) -> list[list[_Head]]:
    # What was refused would fail the transaction of all: it comes alone.
    alone = case((lane.c.failures > 0, 1), else_=limit)
    head = _head_of(lane.c.id, lane.c.low_due_ms, now_ms, alone).lateral()
    wanted = select(head).select_from(lane).join(head, true())
    wanted = wanted.where(lane.c.id.in_([row.id for row in found]))
    rows = connection.execute(wanted.order_by(head.c.lane_id, head.c.due_ms, head.c.id))
    return [
        [(row.id, row.bytes) for row in of_lane]
        for _, of_lane in groupby(rows, attrgetter("lane_id"))
    ]


def _heads_sqlite(
    connection: Connection, found: Iterable[Row[Any]], now_ms: int, limit: int
) -> list[list[_Head]]:
    """The same without LATERAL, which SQLite lacks; a statement takes microseconds there."""
    heads = (
        connection.execute(_head_of(row.id, row.low_due_ms, now_ms, 1 if row.failures else limit))
        for row in found
    )
    return [[(row.id, row.bytes) for row in of_lane] for of_lane in heads]


def _within(heads: Iterable[Iterable[_Head]], limit_bytes: int) -> list[int]:
    """The ids that fit: the first of each lane, then the second of each; at least one."""
    taken: list[int] = []
    for head in (head for rank in zip_longest(*heads) for head in rank if head is not None):
        limit_bytes -= head[1]
        if limit_bytes < 0 and taken:
            break
        taken.append(head[0])
    return taken


def _whole(connection: Connection, ids: Iterable[int]) -> list[StoredMessage]:
    rows = [
        row
        for some in in_parts(ids)
        for row in connection.execute(_WHOLE.where(message.c.id.in_(some)))
    ]
    return [stored(row) for row in sorted(rows, key=attrgetter("lane_id", "due_ms", "id"))]


def stored(row: Row[Any]) -> StoredMessage:
    """Makes the value of a row of `message` with its lane's service, destination and slot."""
    content = row._asdict()
    return StoredMessage(**content | {"headers": header_bytes.read(row.headers)})


def in_parts(items: Iterable[_T]) -> Iterator[list[_T]]:
    """Cuts a list of ids into parts for one statement each."""
    left = iter(items)
    while some := list(islice(left, _ROWS_A_STATEMENT)):
        yield some
