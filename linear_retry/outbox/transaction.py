"""Stores messages through the application's own connection, in its transaction."""

from typing import Any

from linear_retry.outbox.message import OutboxMessage, content
from linear_retry.store import lanes, messages
from linear_retry.store.application.borrowed import Borrowing
from linear_retry.store.database import Database
from linear_retry.store.lanes import Lane
from linear_retry.store.records import slot_of

_OTHERWISE = "the message is sent even if the rest is not committed"


class Transactions:
    """Stores messages in transactions of the application's. Threads may share it.

    Others that store in the same lane do not wait for the transaction to end, nor does it wait for
    the sender.
    """

    def __init__(self, database: Database, own_id: str) -> None:
        """`own_id` is the id of the store whose messages are sent."""
        self._database = database
        self._borrowing = Borrowing(database, own_id, "add", _OTHERWISE)
        self._known: set[Lane] = set()

    def add(self, transaction: Any, message: OutboxMessage) -> None:
        """Stores `message`, to be sent once `transaction` is committed.

        Raises `UsageError` for what is no open transaction of the store's database.
        """
        with self._borrowing.connection(transaction) as connection:
            self._borrowing.check(connection)
            due = message.due(self._database.now_ms(connection))
            self._make_lane(("outbox", due.destination, due.slot), due.due_ms)
            messages.add(self._database, connection, [due])

    def prepare(self, topic: str, key: bytes | str | None, partition: int | None) -> None:
        """Makes the lane of such a message: `add` then uses the caller's connection alone.

        Raises `UsageError` for a key of another type, and `StoreError`.
        """
        self._make_lane(("outbox", topic, slot_of(content(key, "key"), partition)))

    def _make_lane(self, lane: Lane, due_ms: int | None = None) -> None:
        """Makes a missing lane in a transaction of ours, for what is due then, or from now on.

        In the application's others would wait for its end, or for each other. SQLite has only one
        writer, which is that transaction.
        """
        if lane not in self._known and not self._database.is_sqlite:
            with self._database.begin() as connection:
                due_ms = self._database.now_ms(connection) if due_ms is None else due_ms
                lanes.get_or_make(self._database, connection, {lane: due_ms})
            self._known.add(lane)
