"""Raises the lowest due time of lanes, so that the search steps over what is gone."""

from collections.abc import Collection

from sqlalchemy import func, select, update

from linear_retry.store.database import Database
from linear_retry.store.schema import lane, message

_MARGIN_MS = 5_000
"""What is stored for now need not lower it: open transactions would wait for each other."""
_STEP_MS = 10_000
"""The least rise: each ends transactions of an application under REPEATABLE READ that began before
it and store in the lane, with the serialization failure that these have to expect."""


def raise_low_due(database: Database, lane_ids: Collection[int]) -> None:
    """Raises `low_due_ms` of these lanes to their first message, or to a few seconds ago.

    Lanes into which a transaction inserts at the moment are left as they are: what it adds may be
    due earlier than all that can be seen. Raises `StoreError`.
    """
    # SQLite removes a deleted row from the index at once.
    if database.is_sqlite or not lane_ids:
        return
    with database.begin() as connection:
        now_ms = database.now_ms(connection)
        # FOR UPDATE, the lock that conflicts with that of an insert into the lane.
        free = select(lane.c.id).where(lane.c.id.in_(lane_ids)).order_by(lane.c.id)
        locked = connection.scalars(free.with_for_update(skip_locked=True)).all()
        # A statement of its own, which sees what was committed until the lock was there.
        first_ms = (
            select(func.min(message.c.due_ms))
            .where(message.c.lane_id == lane.c.id, message.c.due_ms >= lane.c.low_due_ms)
            .scalar_subquery()
        )
        most_ms = now_ms - _MARGIN_MS
        low_ms = func.greatest(
            lane.c.low_due_ms, func.least(func.coalesce(first_ms, most_ms), most_ms)
        )
        worth_it = low_ms >= lane.c.low_due_ms + _STEP_MS
        rise = update(lane).where(lane.c.id.in_(locked), worth_it)
        connection.execute(rise.values(low_due_ms=low_ms))
