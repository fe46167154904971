"""Moves records of the scheduler's topic into its store, each once, from where it is set to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Connection

from linear_retry.consumer.settings.by_key import Order
from linear_retry.errors import ConfigurationError, StoreError
from linear_retry.inbox.handling import Transacting
from linear_retry.inbox.places import Places
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import read_fresh
from linear_retry.kafka.topics.standalone_consumer import ANSWER_TIMEOUT_S, StandaloneConsumer
from linear_retry.records.record import Record
from linear_retry.retry.clock import Clock
from linear_retry.scheduler.changes import Reason
from linear_retry.scheduler.contract import read_request
from linear_retry.scheduler.destinations import Destinations
from linear_retry.scheduler.start import PLACES, beginnings, row_of, stored_places
from linear_retry.scope import Partition, Place, Scope
from linear_retry.store import audit, dead_letters, messages
from linear_retry.store.application import places
from linear_retry.store.database import Database
from linear_retry.store.records import NewDeadLetter, NewMessage


class Intake:
    """The inbox of the scheduler's consumer, whose database is the store; and its handler.

    A batch and the place behind it are one transaction: a message is in the store exactly once,
    whatever is killed, and a restored copy gets again what it lacks.
    """

    reads_all = True

    def __init__(
        self, database: Database, destinations: Destinations, config: Mapping[str, Any]
    ) -> None:
        """`config` holds librdkafka's keys of the cluster that is read."""
        self._database = database
        self._destinations = destinations
        self._config = config
        self.has_one_writer = database.is_sqlite

    def places(
        self,
        group_id: str,  # noqa: ARG002  (of a topic the store has one place, whatever the group)
        life_group_id: str,  # noqa: ARG002  (each delay of a message is a record to keep)
        owner: str,
        clock: Clock,
        order: Order,
    ) -> Transacting:
        """Returns the places of the consumer; for `LinearConsumer`.

        A partition that the store does not know is read from its beginning: by the group's commit,
        what a restored copy lacks would be passed over.
        """
        begin_at = partial(beginnings, self._config)
        made = Places(self._database, PLACES, None, owner, clock, order, begin_at)
        return _InStore(made, self._database.begin)

    def store(self, batch: Sequence[Message], connection: Connection) -> None:
        """Stores a batch of one partition: the handler of the consumer. Raises `StoreError`."""
        with self._database.explained():
            now_ms = self._database.now_ms(connection)
            wanted, dead = self._sorted([read_fresh(message) for message in batch], now_ms)
            messages.add(self._database, connection, wanted)
            dead_letters.add(self._database, connection, dead)

    def _sorted(
        self, records: Sequence[Record], now_ms: int
    ) -> tuple[list[NewMessage], list[NewDeadLetter]]:
        """Divides them into those to send and those that never can be."""
        found = [read_request(each, self._destinations, now_ms) for each in records]
        return (
            [each for each in found if isinstance(each, NewMessage)],
            [each for each in found if isinstance(each, NewDeadLetter)],
        )


class _InStore(Transacting):
    """Places in the store of a service, which others use too."""

    def close(self) -> None:
        """Leaves the store open."""


@dataclass(frozen=True, slots=True)
class Repositioning:
    """Where the intake continued (None: nothing of the partition was stored), and where it does.

    The partition's messages begin at `first`, and end before `end`.
    """

    before: int | None
    offset: int
    first: int
    end: int


def reset_offset(
    database: Database,
    config: Mapping[str, Any],
    partition: Partition,
    offset: int | None,
    reason: Reason | None,
) -> Repositioning:
    """Sets it to `offset`; without a reason it only looks.

    The default is the offset nearest to the store's: the partition's first after its retention, its
    end after the end of its log was lost. Raises `ConfigurationError` for an offset or a partition
    that the topic does not have, and without `offset` where the partition has the store's;
    `UnknownTopicError`, `BrokerError` and `StoreError`.
    """
    topic, number = partition
    consumer = StandaloneConsumer(config, ANSWER_TIMEOUT_S)
    try:
        bounds = consumer.bounds(topic)
    finally:
        consumer.close()
    if number not in bounds:
        raise ConfigurationError(f"{topic} has no partition {number}; it has {len(bounds)}")
    first, end = bounds[number]
    row = row_of(config, partition)
    with database.begin() as connection:
        if reason is None:
            before = stored_places(connection, row.topic_id).get(number)
            return Repositioning(before, _chosen(partition, offset, before, first, end), first, end)
        claimed = places.claim(connection, database, row, topic, "reset-offset")
        if claimed is None:
            raise StoreError(f"{Scope(*partition)}: a scheduler is storing a batch; try again")
        before = claimed.next_offset
        to = _chosen(partition, offset, before, first, end)
        places.put(connection, database, row, claimed.epoch, to)
        details = {"partition": str(Scope(*partition)), "before": before, "offset": to}
        audit.write(
            database,
            connection,
            actor=reason.actor,
            action="reset-offset",
            count=0,
            details=details | {"comment": reason.comment},
        )
    return Repositioning(before, to, first, end)


def _chosen(
    partition: Partition, offset: int | None, before: int | None, first: int, end: int
) -> int:
    has = f"the partition's messages begin at offset {first} and end before {end}"
    if offset is None:
        if before is None:
            return first
        if first <= before <= end:
            raise ConfigurationError(
                f"{Place(*partition, before)}: nothing to reset: {has}, so the scheduler "
                "can go on; to go on elsewhere, name the place with --offset"
            )
        return first if before < first else end
    if not first <= offset <= end:
        raise ConfigurationError(
            f"{Place(*partition, offset)}: {has}; write an offset from {first} to {end}"
        )
    return offset
