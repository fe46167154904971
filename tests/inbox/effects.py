"""An application's database, with a row for each effect of a handler."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, create_engine, text

from linear_retry.kafka import Message

GROUP = "ledger"


def write(message: Message, transaction: Any) -> None:
    """The effect of a message: one row more, through SQLAlchemy."""
    transaction.execute(_INSERT, {"p": message.partition(), "o": message.offset()})


_INSERT = text("INSERT INTO effect (part, place) VALUES (:p, :o)")
_TABLE = {
    "sqlite": "CREATE TABLE effect (id INTEGER PRIMARY KEY AUTOINCREMENT, part INT, place INT)",
    "postgresql": "CREATE TABLE effect (id SERIAL PRIMARY KEY, part INT, place INT)",
}


class Effects:
    """The effects in a database, in the order in which they came."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine = engine_of(url)

    def make_table(self) -> None:
        with self.engine.begin() as connection:
            connection.execute(text(_TABLE[self.engine.name]))

    def of(self, partition: int = 0) -> list[int]:
        """The offsets whose effects are there."""
        wanted = text("SELECT place FROM effect WHERE part = :p ORDER BY id")
        with self.engine.connect() as connection:
            return list(connection.scalars(wanted, {"p": partition}))

    def places(self, topic: str) -> list[int]:
        """The next offset of each partition, as the inbox has it."""
        wanted = text(
            "SELECT next_offset FROM linear_retry_inbox_place WHERE topic = :t ORDER BY partition"
        )
        with self.engine.connect() as connection:
            return list(connection.scalars(wanted, {"t": topic}))

    def keys(self) -> int:
        """How many keys are done beyond the place of their partition."""
        with self.engine.connect() as connection:
            return connection.scalar(text("SELECT count(*) FROM linear_retry_inbox_key")) or 0

    def set_place(self, offset: int) -> None:
        """As a restored copy of the database has it."""
        with self.engine.begin() as connection:
            connection.execute(
                text("UPDATE linear_retry_inbox_place SET next_offset = :o"), {"o": offset}
            )
            connection.execute(text("DELETE FROM effect WHERE place >= :o"), {"o": offset})


def engine_of(url: str) -> Engine:
    """An engine as an application makes it."""
    return create_engine(url.replace("postgresql:", "postgresql+psycopg:"))


@contextmanager
def effects_in(url: str) -> Iterator[Effects]:
    """Makes the table, and closes the engine at the end."""
    found = Effects(url)
    found.make_table()
    try:
        yield found
    finally:
        found.engine.dispose()
