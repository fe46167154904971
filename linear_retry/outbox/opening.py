"""Opens the store of an outbox."""

from contextlib import ExitStack

from linear_retry.store import lanes
from linear_retry.store.database import Database
from linear_retry.store.migrations import check_version, migrate
from linear_retry.store.sender.identity import store_id


def opened(database: Database) -> tuple[set[tuple[str, str]], str]:
    """Checks the store; returns the lanes that still have messages, and its id."""
    with ExitStack() as undo:
        undo.callback(database.close)
        if database.is_sqlite:
            migrate(database)
        check_version(database)
        with database.begin() as connection:
            opened = set(lanes.waiting(connection, "outbox")), store_id(database, connection)
        undo.pop_all()
        return opened
