"""A keeper without its thread, over a store that fails when it is told to."""

import itertools
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, select

from linear_retry.errors import StoreError
from linear_retry.kafka.producers.direct import Report, Unsent
from linear_retry.outbox.held_lanes import HeldLanes
from linear_retry.outbox.keeper import Keeper
from linear_retry.outbox.sending import Sending
from linear_retry.outbox.storing import Storing
from linear_retry.store.database import Database
from linear_retry.store.records import slot_of
from linear_retry.store.schema import message

TIMEOUT_S = 10.0
LANE = ("orders", slot_of(b"k", None))


def unsent(
    number: int, timestamp_ms: int = 0, *, key: bytes = b"k", value: bytes | None = None
) -> Unsent:
    """A message with a callback; of the lane `LANE`, by its key."""
    value = b"%d" % number if value is None else value
    retry_id = b"id-%d" % number
    return ("orders", value, key, -1, timestamp_ms, (), retry_id, True, lambda *_: None)


def stored(database: Database) -> list[int]:
    """The values in the store, in the order in which they are sent."""
    with database.reading() as connection:
        rows = connection.scalars(select(message.c.value).order_by(message.c.due_ms, message.c.id))
        return [int(value or b"") for value in rows]


class AwayDatabase(Database):
    """A store to which nothing can be written while it is told so; its clock stands."""

    is_away = loses_answers = False

    def now_ms(self, _: Connection) -> int:
        return 1_700_000_000_000

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        if self.is_away:
            raise StoreError("nobody is there")
        with super().begin() as connection:
            yield connection
        if self.loses_answers:
            raise StoreError("the commit was not answered")


class _Kafka:
    """A direct producer that takes everything, once it is asked to."""

    has_failed = answers = False
    error = None

    def __init__(self, sent: list[bytes | str | None]) -> None:
        self._sent = sent
        self.asked: list[str] = []

    def __len__(self) -> int:
        return 0

    def send(self, _: int, message: Unsent) -> bool:
        self._sent.append(message[1])
        return True

    def is_answered(self, topic: str, within_s: float) -> bool:
        self.asked.append(topic)
        return self.answers

    def drain(self, within_s: float) -> list[Unsent]:
        return []

    def poll_if_idle(self) -> None:
        """Has nothing to report."""

    def mark(self, timeout_s: float) -> None:
        """Nothing is ever overdue."""


class KeeperScene:
    """An outbox whose lane has messages in the store; its clock stands."""

    def __init__(self, database: Database) -> None:
        self.now_s = 100.0
        self.sent: list[bytes | str | None] = []
        self._numbers = itertools.count(1)
        reports: deque[Report] = deque()
        kafka: Any = _Kafka(self.sent)
        self.kafka = kafka
        self.sending = Sending(
            lambda: kafka,
            HeldLanes({LANE}),
            self._numbers.__next__,
            queue_messages=1_000,
            largest_bytes=1_000_000,
        )
        self.storing = Storing(
            *(database, reports),
            timeout_s=TIMEOUT_S,
            recover=None,
            lanes={LANE},
            now_s=lambda: self.now_s,
        )
        self._keeper = Keeper(
            *(self.sending, self.storing, database),
            timeout_s=TIMEOUT_S,
            now_s=lambda: self.now_s,
        )

    def send(self, number: int, key: bytes = b"k") -> None:
        self.sending.send(next(self._numbers), unsent(number, key=key))

    def turn_after(self, seconds: float) -> None:
        self.now_s += seconds
        self._keeper.turn()
