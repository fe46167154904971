"""Dead letters of the store: added, removed, and forwarded to wait again."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import fields

from sqlalchemy import (
    BigInteger,
    Connection,
    Integer,
    delete,
    insert,
    literal,
    select,
)

from linear_retry.store import header_bytes, lanes, messages
from linear_retry.store.database import Database
from linear_retry.store.lanes import Lane
from linear_retry.store.messages import in_parts
from linear_retry.store.records import (
    NewDeadLetter,
    NewMessage,
    Service,
    StoredDeadLetter,
    partition_of,
    slot_of,
)
from linear_retry.store.schema import StoredText, dead_letter, lane, message

_CONTENT = ("key", "value", "headers", "timestamp_ms", "retry_id", "group_id", "origin")


def add(database: Database, connection: Connection, letters: Sequence[NewDeadLetter]) -> None:
    """Stores `letters`, in this order."""
    now_ms = database.now_ms(connection)
    names = [field.name for field in fields(NewDeadLetter)]
    rows = [
        {name: getattr(letter, name) for name in names}
        | {"headers": header_bytes.write(letter.headers), "died_ms": now_ms}
        for letter in letters
    ]
    if rows:
        connection.execute(insert(dead_letter), rows)


def add_waiting(
    database: Database, connection: Connection, ids: Iterable[int], *, reason: str, error: str
) -> int:
    """Makes dead letters of the waiting messages with these ids; returns how many there were."""
    now_ms = database.now_ms(connection)
    return sum(_add_some(connection, some, now_ms, reason, error) for some in in_parts(ids))


def _add_some(
    connection: Connection, ids: Sequence[int], now_ms: int, reason: str, error: str
) -> int:
    # Locked: one that is removed meanwhile, as it was sent, would become a dead letter too.
    mine = select(message.c.lane_id).where(message.c.id.in_(ids)).order_by(message.c.id)
    lane_ids = set(connection.execute(mine.with_for_update()).scalars())
    # Lane by lane, in the database: values of many megabytes need not come here and go back.
    for each in connection.execute(select(lane).where(lane.c.id.in_(lane_ids))):
        constant = {
            "service": literal(each.service, StoredText),
            "destination": literal(each.destination, StoredText),
            "partition": literal(partition_of(each.slot), Integer),
            "reason": literal(reason, StoredText),
            "error": literal(error, StoredText),
            "died_ms": literal(now_ms, BigInteger),
        }
        moved = select(*(message.c[name] for name in _CONTENT), *constant.values())
        moved = moved.where(message.c.id.in_(ids), message.c.lane_id == each.id)
        moved = moved.order_by(message.c.due_ms, message.c.id)
        added = insert(dead_letter).from_select([*_CONTENT, *constant], moved)
        connection.execute(added)
    return messages.remove(connection, ids)


def get(connection: Connection, letter_id: int) -> StoredDeadLetter | None:
    """Reads a whole dead letter; None if it was removed or forwarded."""
    row = connection.execute(select(dead_letter).where(dead_letter.c.id == letter_id)).first()
    if row is None:
        return None
    return StoredDeadLetter(**row._asdict() | {"headers": header_bytes.read(row.headers)})


def destinations(
    connection: Connection, ids: Iterable[int]
) -> set[tuple[Service, str, str | None]]:
    """Returns where the dead letters with these ids would be forwarded to, and their origins."""
    columns = dead_letter.c
    wanted = select(columns.service, columns.destination, columns.origin)
    return {
        (row.service, row.destination, row.origin)
        for some in in_parts(ids)
        for row in connection.execute(wanted.where(columns.id.in_(some)))
    }


def remove(connection: Connection, ids: Iterable[int]) -> int:
    """Deletes the dead letters with these ids; returns how many were there."""
    return sum(
        connection.execute(delete(dead_letter).where(dead_letter.c.id.in_(some))).rowcount
        for some in in_parts(ids)
    )


def forward(database: Database, connection: Connection, ids: Iterable[int]) -> int:
    """Lets the dead letters with these ids wait again, due now; returns how many.

    One that names no destination stays where it is: it can only be edited.
    """
    return sum(_forward_some(database, connection, some) for some in in_parts(ids))


def _forward_some(database: Database, connection: Connection, ids: Sequence[int]) -> int:
    columns = dead_letter.c
    wanted = select(
        columns.id, columns.service, columns.destination, columns.partition, columns.key
    ).where(columns.id.in_(ids), columns.destination != "")
    by_lane: dict[Lane, list[int]] = defaultdict(list)
    for row in connection.execute(wanted.order_by(columns.id).with_for_update()):
        by_lane[row.service, row.destination, slot_of(row.key, row.partition)].append(row.id)
    now_ms = database.now_ms(connection)
    lane_ids = lanes.get_or_make(database, connection, dict.fromkeys(by_lane, now_ms))
    for name, letters in by_lane.items():
        constant = {
            "lane_id": literal(lane_ids[name], BigInteger),
            "due_ms": literal(now_ms, BigInteger),
            "stored_ms": literal(now_ms, BigInteger),
        }
        moved = select(*(columns[part] for part in _CONTENT), *constant.values())
        moved = moved.where(columns.id.in_(letters)).order_by(columns.id)
        connection.execute(insert(message).from_select([*_CONTENT, *constant], moved))
    return remove(connection, [each for letters in by_lane.values() for each in letters])


def forward_edited(
    database: Database, connection: Connection, edited: StoredDeadLetter
) -> str | None:
    """Lets `edited` wait, due now, in place of the dead letter with its id.

    `edited` is what `get` returned, with parts replaced. It gets a new id (`with_new_id`), which is
    returned. None if the dead letter is gone. Raises `ValueError` if it names no destination.
    """
    if not edited.destination:
        raise ValueError(f"dead letter {edited.id} has no destination; name one")
    if not remove(connection, [edited.id]):
        return None
    named = edited.with_new_id()
    new = NewMessage(
        slot=slot_of(named.key, named.partition),
        due_ms=database.now_ms(connection),
        **{name: getattr(named, name) for name in ("service", "destination", *_CONTENT)},
    )
    messages.add(database, connection, [new])
    return new.retry_id
