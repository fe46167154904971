"""The intake's next offsets are stored with the messages before them."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event

import pytest
from sqlalchemy import Connection, text

from linear_retry.errors import StoreError
from linear_retry.scheduler import positions
from linear_retry.store.database import Database
from tests.patience import PATIENCE_S

_PLACE = ("cluster", "billing.scheduled", 3)


def test_a_position_is_what_was_written_last(database: Database) -> None:
    """Nothing yet is None, locked or not; afterwards it is the offset."""
    with database.begin() as connection:
        assert positions.read(database, connection, *_PLACE) is None
        assert positions.read(database, connection, *_PLACE, lock=True) is None
    with database.begin() as connection:
        assert positions.read(database, connection, *_PLACE) is None
        positions.write(database, connection, *_PLACE, 100)
        positions.write(database, connection, *_PLACE, 200)
    with database.begin() as connection:
        assert 200 == positions.read(database, connection, *_PLACE, lock=True)
        assert positions.read(database, connection, "other", *_PLACE[1:]) is None


def test_the_first_of_two_is_waited_for(database: Database) -> None:
    """Two that begin with an unknown partition do not both store its first messages."""
    has_begun = Event()

    def second() -> int | None:
        has_begun.set()
        with database.begin() as connection:
            return positions.read(database, connection, *_PLACE, lock=True)

    with ThreadPoolExecutor(1) as pool:
        with database.begin() as connection:
            assert positions.read(database, connection, *_PLACE, lock=True) is None
            found = pool.submit(second)
            assert has_begun.wait(PATIENCE_S)
            positions.write(database, connection, *_PLACE, 100)
        assert 100 == found.result(PATIENCE_S)


def test_an_unknown_partition_is_locked_too(postgres_url: str) -> None:
    """Whoever else begins with it waits, though there is no row to lock yet."""
    with closing(Database(postgres_url)) as database, database.begin() as one:
        positions.read(database, one, *_PLACE, lock=True)
        with pytest.raises(StoreError, match="lock timeout"), database.begin() as other:
            _read_at_once(database, other)


def _read_at_once(database: Database, connection: Connection) -> None:
    connection.execute(text("SET LOCAL lock_timeout = 100"))
    positions.read(database, connection, *_PLACE, lock=True)
