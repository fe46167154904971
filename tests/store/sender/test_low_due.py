"""The search for the next message of a lane begins at its first, and never beyond it."""

import pytest
from sqlalchemy import create_engine, func, select
from sqlalchemy.exc import OperationalError

from linear_retry.store import messages
from linear_retry.store.database import Database
from linear_retry.store.records import StoredMessage
from linear_retry.store.schema import lane
from linear_retry.store.sender.low_due import raise_low_due
from tests.store.contents import new_message

_OVERDUE_MS = 100_000


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


def _now_ms(database: Database) -> int:
    with database.begin() as connection:
        return database.now_ms(connection)


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


def test_it_stays_a_little_behind_now(database: Database) -> None:
    """Else each message stored for now would have to lower it, one transaction after another."""
    with database.begin() as connection:
        now_ms = database.now_ms(connection)
    _add(database, _OVERDUE_MS, now_ms + 3_600_000)
    with database.begin() as connection:
        messages.remove(connection, [each.id for each in _due(database)])
    raise_low_due(database, _lanes(database))
    assert now_ms - 6_000 < _low_due_ms(database) < now_ms + 60_000
    assert _low_due_ms(database) < _now_ms(database) - 4_000


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


def test_a_lane_without_messages_rises_too(database: Database) -> None:
    """What stood in it is stepped over for ever."""
    _add(database, _OVERDUE_MS)
    with database.begin() as connection:
        now_ms = database.now_ms(connection)
        messages.remove(connection, [each.id for each in _due(database)])
    raise_low_due(database, _lanes(database))
    assert now_ms - 6_000 < _low_due_ms(database)


def test_a_transaction_that_cannot_see_the_rise_is_refused(
    database: Database, store_url: str
) -> None:
    """It would store below it, where nobody looks; under REPEATABLE READ it is to be repeated."""
    _add(database, _OVERDUE_MS)
    with database.begin() as connection:
        messages.remove(connection, [each.id for each in _due(database)])
    url = store_url.replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(url, isolation_level="REPEATABLE READ")
    with engine.connect() as application:
        database.now_ms(application)
        raise_low_due(database, _lanes(database))
        with pytest.raises(OperationalError, match="could not serialize access"):
            messages.add(database, application, [new_message()])
    engine.dispose()


def test_it_does_not_rise_by_little(database: Database) -> None:
    """Each rise costs a row, and ends such transactions."""
    _add(database, _OVERDUE_MS, _OVERDUE_MS + 9_000)
    with database.begin() as connection:
        messages.remove(connection, [_due(database)[0].id])
    raise_low_due(database, _lanes(database))
    assert _OVERDUE_MS == _low_due_ms(database)
