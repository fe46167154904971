"""A store, topics on the real broker, and senders whose steps a test makes."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from confluent_kafka import Message
from sqlalchemy import func, select

from linear_retry.errors import StoreError
from linear_retry.store import messages
from linear_retry.store.database import Database
from linear_retry.store.records import NewMessage
from linear_retry.store.schema import dead_letter, lease, message
from linear_retry.store.sender.progress import Progress
from linear_retry.store.sender.sender import Sender
from tests.kafka_operations import KafkaOperations, wait_until
from tests.store.contents import new_message

LEASE_S = 1.0
QUICK = (0.2, 0.2, 0.2)


def due_message(**changes: Any) -> NewMessage:
    """A message that retention does not remove from its topic at once."""
    return new_message(**{"timestamp_ms": None} | changes)


def delays(failures: int) -> float | None:
    """Three short waits, then the message is exhausted."""
    return QUICK[failures - 1] if failures <= len(QUICK) else None


class Scene:
    """One store and one cluster; `told` has what all senders have told."""

    def __init__(self, kafka: KafkaOperations, database: Database) -> None:
        self.kafka, self.database = kafka, database
        self.told: list[Progress] = []
        self._senders: list[Sender] = []

    def sender(self, **options: Any) -> Sender:
        """One more instance, with short leases."""
        given: dict[str, Any] = {"listener": self.told.append, "lease_s": LEASE_S, "delays": delays}
        given |= {"service": "scheduler", "config": self.kafka.client_settings()}
        self._senders.append(Sender(self.database, **given | options))
        return self._senders[-1]

    def add(self, *added: NewMessage) -> None:
        with self.database.begin() as connection:
            messages.add(self.database, connection, added)

    def add_numbers(self, topic: str, numbers: Iterable[int], *, partitions: int = 1) -> None:
        """Stores messages that are due in the order of their values."""
        self.add(
            *(
                due_message(
                    destination=topic,
                    slot=str(number % partitions),
                    due_ms=number,
                    key=b"%d" % number,
                    value=b"%d" % number,
                    retry_id=f"id-{number}",
                    headers=(("retry-id", b"id-%d" % number),),
                )
                for number in numbers
            )
        )

    def step(self, sender: Sender) -> None:
        """One step; a store that fails, as by the lock of who is suspended, is tried again."""
        with suppress(StoreError):
            sender.step()

    def send_all(self, *senders: Sender) -> None:
        """Steps of these, one after another, until nothing is left."""

        def is_empty() -> bool:
            for sender in senders:
                self.step(sender)
            return self.waiting() == 0

        wait_until(is_empty, "everything is sent", lambda: self.told[-20:])

    def waiting(self) -> int:
        with self.database.reading() as connection:
            return connection.execute(select(func.count()).select_from(message)).scalar_one()

    def dead(self) -> list[tuple[str, str]]:
        """Retry id and reason of each dead letter."""
        with self.database.reading() as connection:
            rows = connection.execute(select(dead_letter).order_by(dead_letter.c.id))
            return [(row.retry_id, row.reason) for row in rows]

    def shares(self) -> list[int]:
        """How many leases each instance holds."""
        counted = select(func.count()).where(lease.c.owner.is_not(None)).group_by(lease.c.owner)
        with self.database.reading() as connection:
            return list(connection.scalars(counted))

    def received(self, topic: str, count: int) -> list[Message]:
        """All that a `read_committed` reader sees in the topic, once it is so many."""
        # A transaction's marker comes some time after the answer to its commit.
        wait_until(lambda: len(self.kafka.read(topic)) >= count, f"{count} are visible")
        return self.kafka.read(topic)

    def values(self, topic: str, count: int) -> Sequence[bytes | None]:
        """Their values, by partition and offset."""
        return [each.value() for each in self.received(topic, count)]

    def close(self) -> None:
        for sender in self._senders:
            sender.close()
