"""Where the intake continues: the next offset of each partition, kept with its messages."""

from sqlalchemy import Connection, delete, select

from linear_retry.store.database import Database
from linear_retry.store.schema import position

_NONE = -1


def read(
    database: Database,
    connection: Connection,
    cluster: str,
    topic: str,
    partition: int,
    *,
    lock: bool = False,
) -> int | None:
    """Returns the next offset of this partition; None if nothing of it was stored yet.

    With `lock` nobody else reads it so, or writes it, until the transaction ends.
    """
    key = {"cluster": cluster, "topic": topic, "partition": partition}
    if lock:
        # A row that is missing cannot be locked: two would both begin at the start.
        first = database.insert(position).values(next_offset=_NONE, **key)
        connection.execute(first.on_conflict_do_nothing())
    wanted = select(position.c.next_offset).filter_by(**key)
    found = connection.execute(wanted.with_for_update() if lock else wanted).scalar()
    return None if found == _NONE else found


def write(
    database: Database,
    connection: Connection,
    cluster: str,
    topic: str,
    partition: int,
    next_offset: int,
) -> None:
    """Stores the next offset of this partition."""
    key = {"cluster": cluster, "topic": topic, "partition": partition}
    first = database.insert(position).values(next_offset=next_offset, **key)
    connection.execute(
        first.on_conflict_do_update(index_elements=list(key), set_={"next_offset": next_offset})
    )


def forget(connection: Connection, cluster: str, topic: str) -> None:
    """Removes the next offsets of all partitions of this topic."""
    connection.execute(delete(position).filter_by(cluster=cluster, topic=topic))
