"""The search for the next message of a lane begins at its first, and never beyond it."""

import pytest
from sqlalchemy import func, select

from linear_retry.store import messages
from linear_retry.store.database import Database
from linear_retry.store.records import StoredMessage
from linear_retry.store.schema import lane
from linear_retry.store.sender.low_due import raise_low_due
from tests.store.contents import new_message

_OVERDUE_MS = 1_000


# SQLite has nothing to step over.
pytestmark = pytest.mark.parametrize("store_url", ["postgres"], indirect=True)


def _add(database: Database, *due_ms: int) -> None:
    with database.begin() as connection:
        messages.add(database, connection, [new_message(due_ms=each) for each in due_ms])


def _due(database: Database) -> list[StoredMessage]:
    with database.reading() as connection:
        return messages.due(database, connection, "scheduler", range(8))


def _low_due_ms(database: Database) -> int:
    with database.begin() as connection:
        return int(connection.execute(select(func.min(lane.c.low_due_ms))).scalar_one())


def _lanes(database: Database) -> set[int]:
    with database.begin() as connection:
        return set(connection.scalars(select(lane.c.id)))


def test_it_rises_to_the_first_message(database: Database) -> None:
    """And what is stored below it later is found all the same."""
    _add(database, _OVERDUE_MS, 2 * _OVERDUE_MS)
    first, second = _due(database)
    with database.begin() as connection:
        messages.remove(connection, [first.id])
    raise_low_due(database, _lanes(database))
    assert second.due_ms == _low_due_ms(database)
    _add(database, 1)
    assert [1, second.due_ms] == [each.due_ms for each in _due(database)]


def test_it_does_not_rise_beyond_now(database: Database) -> None:
    """Else each message stored for now would have to lower it, one transaction after another."""
    with database.begin() as connection:
        now_ms = database.now_ms(connection)
    _add(database, _OVERDUE_MS, now_ms + 3_600_000)
    with database.begin() as connection:
        messages.remove(connection, [each.id for each in _due(database)])
    raise_low_due(database, _lanes(database))
    assert now_ms <= _low_due_ms(database) < now_ms + 60_000


def test_it_stays_while_somebody_stores(database: Database) -> None:
    """What an open transaction has stored cannot be seen, and may be due earlier."""
    _add(database, 5 * _OVERDUE_MS)
    with database.begin() as open_one:
        messages.add(database, open_one, [new_message(due_ms=6 * _OVERDUE_MS)])
        raise_low_due(database, _lanes(database))
        with database.begin() as connection:
            messages.remove(connection, [each.id for each in _due(database)])
        raise_low_due(database, _lanes(database))
        assert 5 * _OVERDUE_MS == _low_due_ms(database)
    assert [6 * _OVERDUE_MS] == [each.due_ms for each in _due(database)]


def test_a_lane_without_messages_rises_to_now(database: Database) -> None:
    """What stood in it is stepped over for ever."""
    _add(database, _OVERDUE_MS)
    with database.begin() as connection:
        now_ms = database.now_ms(connection)
        messages.remove(connection, [each.id for each in _due(database)])
    raise_low_due(database, _lanes(database))
    assert now_ms <= _low_due_ms(database)
