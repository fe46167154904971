"""How far each key of a partition is done beyond its place, where keys are the order.

The partition's row has the epoch, which a handler's transaction only shares: handlers of different
keys do not wait for each other. A new owner wants that row alone, and so waits for all of them.
"""

from collections.abc import Mapping

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    and_,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import insert

from linear_retry.store.application.places import Row, changes, key_of
from linear_retry.store.database import Database
from linear_retry.store.schema import StoredText, inbox_key, inbox_place

NOTHING = -1
_OF_ITS_PLACE = and_(
    inbox_key.c.group_id == inbox_place.c.group_id,
    inbox_key.c.topic_id == inbox_place.c.topic_id,
    inbox_key.c.partition == inbox_place.c.partition,
)
_BEYOND = _OF_ITS_PLACE & (inbox_key.c.next_offset > inbox_place.c.next_offset)
_LANE = bindparam("a_lane", type_=StoredText)
_KNOWN = bindparam("a_known", type_=BigInteger)
_OFFSET = bindparam("an_offset", type_=BigInteger)
_IS_KNOWN = exists().where(_OF_ITS_PLACE, inbox_key.c.lane == _LANE)
# Made once: to compose it for each message would take longer than the database does.
_FENCED = (
    select(
        inbox_place.c.group_id,
        inbox_place.c.topic_id,
        inbox_place.c.partition,
        _LANE,
        bindparam("an_end", type_=BigInteger),
    )
    .where(inbox_place.c.group_id == bindparam("a_group"))
    .where(inbox_place.c.topic_id == bindparam("a_topic"))
    .where(inbox_place.c.partition == bindparam("a_partition"))
    .where(inbox_place.c.epoch == bindparam("an_epoch"))
    .where(inbox_place.c.next_offset <= _OFFSET)
    .where(or_(inbox_place.c.next_offset >= _KNOWN, _IS_KNOWN))
    .with_for_update(read=True, key_share=True, of=inbox_place)
)
_INSERT = insert(inbox_key).from_select([*inbox_key.c], _FENCED)
_TAKE = _INSERT.on_conflict_do_update(
    index_elements=[*inbox_key.primary_key],
    set_={"next_offset": _INSERT.excluded.next_offset},
    where=inbox_key.c.next_offset.between(_KNOWN, _OFFSET),
)


def take(
    connection: Connection,
    database: Database,
    row: Row,
    epoch: int,
    lane: str,
    known: int,
    offset: int,
) -> bool:
    """Notes that a lane is done up to the message at `offset`, if `epoch` is that of the row.

    `known` is what was stored of the lane, as far as the owner knows. The epoch stays until the
    transaction ends. False: something is otherwise.
    """
    mine = {"a_group": row.group_id, "a_topic": row.topic_id, "a_partition": row.partition}
    offsets = {"a_known": known, "an_offset": offset, "an_end": offset + 1}
    change = {**mine, "a_lane": lane, "an_epoch": epoch, **offsets}
    return changes(connection, database, _TAKE, change)


def look(
    connection: Connection, database: Database, row: Row, epoch: int, lane: str
) -> tuple[int, int] | None:
    """Returns the next offset of the partition, and that of the lane, -1 for none.

    None if `epoch` is not the row's.
    """
    wanted = (
        select(inbox_place.c.next_offset, func.coalesce(inbox_key.c.next_offset, NOTHING))
        .select_from(inbox_place)
        .outerjoin(inbox_key, _OF_ITS_PLACE & (inbox_key.c.lane == lane))
        .where(_has(row), inbox_place.c.epoch == epoch)
    )
    found = connection.execute(wanted, execution_options=database.execution_options).one_or_none()
    return None if found is None else (found[0], found[1])


def read_beyond(connection: Connection, row: Row) -> dict[str, int]:
    """Returns the next offset of each lane that is done beyond the partition's place."""
    wanted = select(inbox_key.c.lane, inbox_key.c.next_offset).join(inbox_place, _BEYOND)
    found = connection.execute(wanted.where(_has(row)))
    return {each.lane: each.next_offset for each in found}


def sums_beyond(connection: Connection, group_id: str) -> Mapping[Row, int]:
    """Returns the sum of what `read_beyond` has, for each row of a group where it has any."""
    wanted = (
        select(*[*inbox_key.primary_key][:3], func.sum(inbox_key.c.next_offset))
        .join(inbox_place, _BEYOND)
        .where(inbox_key.c.group_id == group_id)
        .group_by(*[*inbox_key.primary_key][:3])
    )
    return {Row(*found[:3]): int(found[3]) for found in connection.execute(wanted)}


def forget(connection: Connection, row: Row, up_to: int | None = None) -> None:
    """Forgets lanes that are done up to there and no further, or all.

    Not waiting: a lane that a handler has is forgotten later.
    """
    wanted = select(*inbox_key.primary_key).filter_by(**key_of(row))
    if up_to is not None:
        wanted = wanted.where(inbox_key.c.next_offset <= up_to)
    free = wanted.with_for_update(skip_locked=True)
    connection.execute(delete(inbox_key).where(tuple_(*inbox_key.primary_key).in_(free)))


def _has(row: Row) -> ColumnElement[bool]:
    return and_(*(inbox_place.c[name] == value for name, value in key_of(row).items()))
