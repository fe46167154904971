"""Where a consumer continues in each partition: a row beside the effects of its handler."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, case, delete, func, select, text, update
from sqlalchemy.exc import DBAPIError

from linear_retry.store.database import Database
from linear_retry.store.schema import inbox_done, inbox_key, inbox_place

_NONE = -1
# Made once: to compose it for each message would take longer than the database does.
_TAKE = (
    update(inbox_place)
    .where(inbox_place.c.group_id == bindparam("a_group"))
    .where(inbox_place.c.topic_id == bindparam("a_topic"))
    .where(inbox_place.c.partition == bindparam("a_partition"))
    .where(inbox_place.c.epoch == bindparam("an_epoch"))
    .where(inbox_place.c.next_offset.between(bindparam("a_known"), bindparam("an_offset")))
    .values(
        next_offset=bindparam("an_end"),
        # That of another key may still leave.
        leaving=case((inbox_place.c.leaving >= bindparam("an_end"), inbox_place.c.leaving)),
    )
)
# A session shows only those of its own user's. That it has a lock of the table tells a transaction
# from one whose number is that of a group of transactions.
_END = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE backend_xid::text = ANY(:holders) "
    "AND usename = current_user AND datname = current_database() "
    "AND pid IN (SELECT pid FROM pg_locks WHERE relation = to_regclass(:place))"
)
_MEMBERS = text("SELECT xid::text FROM pg_get_multixact_members(CAST(:xmax AS xid))")


@dataclass(frozen=True, slots=True)
class Row:
    """Names the row of one partition of a topic: its id is no other topic's of that name."""

    group_id: str
    topic_id: str
    partition: int


@dataclass(frozen=True, slots=True)
class Claimed:
    """Where an owner begins, None where nothing is stored; `epoch` is of no other owner.

    The letter of the message at `leaving`, in that lane, may have been sent.
    """

    next_offset: int | None
    epoch: int
    leaving: int | None
    leaving_lane: str | None


class OtherOrderError(Exception):
    """What is done beyond a place is done in another order than that of who claims it."""


def claim(
    connection: Connection,
    database: Database,
    row: Row,
    topic: str,
    owner: str,
    ordered_by: str = "",
) -> Claimed | None:
    """Makes `owner` the one who may write the row; None while a transaction of another has it.

    `ordered_by` names its order, empty for that of the partition. Raises `OtherOrderError`.
    """
    wanted = select(inbox_place)
    free = wanted.filter_by(**key_of(row)).with_for_update(skip_locked=True)
    found = connection.execute(free).one_or_none()
    if found is None:
        # Only now: for a row that a transaction has, ON CONFLICT would wait.
        if connection.execute(wanted.filter_by(**key_of(row))).one_or_none() is not None:
            return None
        first = database.insert(inbox_place).values(
            **key_of(row),
            topic=topic,
            next_offset=_NONE,
            epoch=0,
            owner=owner,
            ordered_by=ordered_by,
        )
        connection.execute(first.on_conflict_do_nothing())
        found = connection.execute(free).one_or_none()
        if found is None:
            return None
    # A restored copy has an earlier epoch, and the next after that was somebody's.
    epoch = max(found.epoch + 1, database.now_ms(connection))
    beyond = select(inbox_key.c.lane).filter_by(**key_of(row))
    beyond = beyond.where(inbox_key.c.next_offset > found.next_offset).limit(1)
    if found.ordered_by != ordered_by and connection.execute(beyond).first() is not None:
        raise OtherOrderError(
            f"messages beyond its place {found.next_offset} are done in another order (scope, "
            "unkeyed, or key_id): let a consumer with that one handle what is before them, or set "
            "its place with `linear-retry inbox set-place`, to handle all from there on"
        )
    change = update(inbox_place).filter_by(**key_of(row))
    connection.execute(change.values(epoch=epoch, owner=owner, topic=topic, ordered_by=ordered_by))
    next_offset = None if found.next_offset == _NONE else found.next_offset
    return Claimed(next_offset, epoch, found.leaving, found.leaving_lane)


def end_holders(connection: Connection, database: Database, row: Row) -> bool:
    """Ends the sessions whose transactions have this row; False if it may not, or none has it.

    What is silent in a transaction keeps its locks: PostgreSQL's own timeouts count no time of a
    process that was suspended within a statement.
    """
    if database.is_sqlite:
        return False
    found = select(text("xmax::text")).select_from(inbox_place).filter_by(**key_of(row))
    xmax = connection.execute(found).scalar()
    # Of one transaction it is the number, of several that of their group.
    holders = [xmax]
    with suppress(DBAPIError), connection.begin_nested():
        holders += connection.execute(_MEMBERS, {"xmax": xmax}).scalars()
    place = f'"{database.schema}".{inbox_place.name}' if database.schema else inbox_place.name
    ended = connection.execute(_END, {"holders": holders, "place": place})
    return any(ended.scalars())


def take(
    connection: Connection,
    database: Database,
    row: Row,
    epoch: int,
    known: int,
    offset: int,
    end: int,
) -> bool:
    """Notes that all before `end` is done, if all before `offset` was, and `epoch` is the row's.

    `known` is what was stored before, as far as the owner knows. The row is the transaction's until
    it ends. False: something is otherwise.
    """
    mine = {"a_group": row.group_id, "a_topic": row.topic_id, "a_partition": row.partition}
    offsets = {"a_known": known, "an_offset": offset, "an_end": end}
    change = {**mine, "an_epoch": epoch, **offsets}
    return changes(connection, database, _TAKE, change)


def pass_to(
    connection: Connection, database: Database, row: Row, epoch: int, known: int, next_offset: int
) -> bool:
    """Notes that all before `next_offset` is done; False also while a handler writes the row."""
    wanted = select(inbox_place.c.epoch).filter_by(**key_of(row))
    free = wanted.with_for_update(skip_locked=True, key_share=True)
    return connection.execute(free).scalar() == epoch and take(
        connection, database, row, epoch, known, next_offset, next_offset
    )


def put(connection: Connection, database: Database, row: Row, epoch: int, next_offset: int) -> None:
    """Sets the place, forwards or back, if `epoch` is the row's."""
    change = update(inbox_place).filter_by(**key_of(row), epoch=epoch)
    changes(connection, database, change.values(next_offset=next_offset, leaving=None))


def leave(
    connection: Connection,
    database: Database,
    row: Row,
    epoch: int,
    offset: int,
    lane: str | None = None,
) -> bool:
    """Notes that the letter of the message at `offset` is about to be sent."""
    change = update(inbox_place).filter_by(**key_of(row), epoch=epoch)
    return changes(connection, database, change.values(leaving=offset, leaving_lane=lane))


def look(connection: Connection, database: Database, row: Row, epoch: int) -> int | None:
    """Returns the next offset, -1 for none; None if `epoch` is not the row's."""
    wanted = select(inbox_place.c.next_offset).filter_by(**key_of(row), epoch=epoch)
    found = connection.execute(wanted, execution_options=database.execution_options)
    offset: int | None = found.scalar()
    return offset


def note_done(
    connection: Connection, database: Database, group_id: str, message_id: str, now_ms: int
) -> bool:
    """Notes that a message which came back is done; False if it was before."""
    new = database.insert(inbox_done).values(
        group_id=group_id, message_id=message_id, done_ms=now_ms
    )
    return changes(connection, database, new.on_conflict_do_nothing())


def set_place(
    connection: Connection,
    group_id: str,
    topic: str,
    partition: int,
    next_offset: int,
) -> None:
    """Lets the group continue there, and forgets which of its keys were done beyond.

    Its owner loses the place with that, and claims it again. Waits for handlers' transactions.
    """
    which = {"group_id": group_id, "topic": topic, "partition": partition}
    mine = connection.execute(select(inbox_place).filter_by(**which).with_for_update())
    ids = [row.topic_id for row in mine]
    change = update(inbox_place).filter_by(**which)
    epoch = inbox_place.c.epoch + 1
    connection.execute(change.values(next_offset=next_offset, leaving=None, epoch=epoch))
    keys = delete(inbox_key).filter_by(group_id=group_id, partition=partition)
    connection.execute(keys.where(inbox_key.c.topic_id.in_(ids)))


def read_place(connection: Connection, group_id: str, topic: str, partition: int) -> int | None:
    """Returns the next offset of the group there; None if nothing of this partition is stored."""
    wanted = select(func.max(inbox_place.c.next_offset))
    offset: int | None = connection.execute(
        wanted.filter_by(group_id=group_id, topic=topic, partition=partition)
    ).scalar()
    return offset


def purge(connection: Connection, before_ms: int) -> int:
    """Forgets messages that came back and were done before then; returns how many."""
    return connection.execute(delete(inbox_done).where(inbox_done.c.done_ms < before_ms)).rowcount


def count_done(connection: Connection, before_ms: int | None = None) -> int:
    """Returns how many messages that came back are known to be done; with a time, before it."""
    wanted = select(func.count()).select_from(inbox_done)
    if before_ms is not None:
        wanted = wanted.where(inbox_done.c.done_ms < before_ms)
    return connection.execute(wanted).scalar_one()


def read_all(connection: Connection, group_id: str | None = None) -> list[Any]:
    """Returns all rows, or those of a group, by group, topic and partition."""
    columns = inbox_place.c
    wanted = select(inbox_place).order_by(columns.group_id, columns.topic, columns.partition)
    if group_id is not None:
        wanted = wanted.filter_by(group_id=group_id)
    return list(connection.execute(wanted))


def key_of(row: Row) -> dict[str, Any]:
    """Returns its columns, as `filter_by` and `values` take them."""
    return {"group_id": row.group_id, "topic_id": row.topic_id, "partition": row.partition}


def changes(
    connection: Connection, database: Database, change: Any, values: Mapping[str, Any] | None = None
) -> bool:
    """Executes a change of one row; returns whether there was one to change."""
    # It may be an application's own connection, which does not know our schema. And of an INSERT
    # SQLAlchemy knows the count only if it is to keep it.
    options = {**database.execution_options, "preserve_rowcount": True}
    return connection.execute(change, values, execution_options=options).rowcount == 1
