"""A member's places, without a consumer around them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from linear_retry.consumer.settings.by_key import ByKey, order_of
from linear_retry.consumer.settings.inbox import AsksBrokers
from linear_retry.inbox.places import Places
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import written
from linear_retry.records.record import Record
from linear_retry.retry.clock import SystemClock
from linear_retry.scope import Partition
from linear_retry.store.database import Database
from tests.inbox.effects import Effects

PARTITION = ("orders", 0)


class Member:
    """A member's places, and transactions of its application."""

    def __init__(
        self,
        effects: Effects,
        name: str = "first",
        topic_id: str = "id",
        by_key: ByKey | None = None,
    ) -> None:
        order = order_of(by_key, "ledger")
        self.places = Places(Database(effects.url), "ledger", "ledger", name, SystemClock(), order)
        self.effects = effects
        self.committed = 0
        self.topic_id = topic_id

    def claim(self, *partitions: Partition) -> Mapping[Partition, int | None]:
        asks = AsksBrokers(
            lambda names: dict.fromkeys(names, self.topic_id),
            lambda _, offset, __: self.committed > offset,
        )
        return self.places.claim(asks, partitions or [PARTITION])

    def take(self, *offsets: int, key: bytes = b"key") -> list[int | None]:
        """Handles these in a transaction; returns those of which it is the first."""
        with self.effects.engine.begin() as connection:
            found = self.taken(connection, *offsets, key=key)
        self.places.committed([message_at(offset, key=key) for offset in offsets])
        return found

    def taken(self, connection: Any, *offsets: int, key: bytes = b"key") -> list[int | None]:
        messages = [message_at(offset, key=key) for offset in offsets]
        return [each.offset() for each in self.places.take(connection, messages)]

    def starts(self, offset: int, *, is_another_log: bool = False) -> None:
        self.places.starts(PARTITION, offset, is_another_log=is_another_log)


def message_at(
    offset: int, headers: Sequence[tuple[str, bytes]] = (), key: bytes | None = b"key"
) -> Message:
    return written(Record("orders", 0, offset, 1_000, key, b"%d" % offset, tuple(headers)))


Join: TypeAlias = Callable[..., Member]


@contextmanager
def joining(effects: Effects, by_key: ByKey | None = None) -> Iterator[Join]:
    """Makes members, and closes them at the end."""
    made: list[Member] = []

    def make(name: str = "first", topic_id: str = "id", by_key: ByKey | None = by_key) -> Member:
        made.append(Member(effects, name, topic_id, by_key))
        return made[-1]

    yield make
    for member in made:
        member.places.close()
