"""Moves records of the scheduler's topic into its store, each once, from where it is set to."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from linear_retry.errors import ConfigurationError, LinearRetryError
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import read_fresh
from linear_retry.kafka.topics.standalone_consumer import ANSWER_TIMEOUT_S, StandaloneConsumer
from linear_retry.records.record import Record
from linear_retry.scheduler import positions
from linear_retry.scheduler.changes import Reason
from linear_retry.scheduler.contract import read_request
from linear_retry.scheduler.destinations import Destinations
from linear_retry.scheduler.start import check_topic
from linear_retry.scope import Partition, Place, Scope
from linear_retry.store import audit, dead_letters, messages
from linear_retry.store.database import Database
from linear_retry.store.records import NewDeadLetter, NewMessage


class PositionMovedError(LinearRetryError):
    """The store lacks what was stored before: it is a restored copy, or another store."""


class Intake:
    """Stores batches of records, each with where to continue in one transaction.

    That position, and not the group's committed offset, says where reading begins: a message is in
    the store exactly once, whatever is killed, and a restored copy gets again what it lacks.
    """

    def __init__(self, database: Database, destinations: Destinations, cluster: str) -> None:
        """`cluster` is the id of the Kafka cluster that is read."""
        self._database = database
        self._destinations = destinations
        self._cluster = cluster
        self._next_offsets: dict[Partition, int] = {}

    def start_positions(self, partitions: Collection[Partition]) -> dict[Partition, int | None]:
        """Returns where reading begins in each of these; None where the store does not know it.

        Asked at each assignment. Raises `StoreError`.
        """
        with self._database.begin() as connection:
            found = {
                each: positions.read(self._database, connection, self._cluster, *each)
                for each in partitions
            }
        known = {each: offset for each, offset in found.items() if offset is not None}
        for each in partitions:
            self._next_offsets.pop(each, None)
        self._next_offsets |= known
        return found

    def begin_at(self, offsets: Mapping[Partition, int]) -> dict[Partition, int | None]:
        """Notes where partitions begin that the store does not know; returns where each begins.

        Else the group's commit behind what nobody can read would look like another store's.
        """
        with self._database.begin() as connection:
            for each, offset in offsets.items():
                place = (self._cluster, *each)
                if positions.read(self._database, connection, *place, lock=True) is None:
                    positions.write(self._database, connection, *place, offset)
        return self.start_positions(offsets.keys())

    def pass_ends(self, next_offsets: Mapping[Partition, int]) -> None:
        """Stores that everything before these is done, where that was not known. For any thread.

        Behind the last message there may be markers and aborted records of transactions: when
        retention removes them, a position before them would look like lost messages.
        """
        expected = dict(self._next_offsets)
        for each, offset in next_offsets.items():
            place = (self._cluster, *each)
            if each not in expected or offset <= expected[each]:
                continue
            with self._database.reading() as connection:
                is_behind = positions.read(self._database, connection, *place) == expected[each]
            if not is_behind:
                continue
            with self._database.begin() as connection:
                # Not over what somebody else, or a batch of ours, has stored meanwhile.
                if positions.read(self._database, connection, *place, lock=True) == expected[each]:
                    positions.write(self._database, connection, *place, offset)

    def forget(self) -> None:
        """Begins again: what was stored before is no longer expected in the store.

        Not between two batches: the next one would be stored beyond what the store lacks.
        """
        self._next_offsets.clear()

    def check(self) -> None:
        """Looks whether the store has become an older one. For any thread.

        Where no message comes, no batch would show it. Raises `PositionMovedError`, `StoreError`.
        """
        expected = dict(self._next_offsets)  # before the look: what is stored meanwhile is more
        with self._database.reading() as connection:
            for each, offset in expected.items():
                position = positions.read(self._database, connection, self._cluster, *each)
                self._check(each, position, offset)

    def store(self, batch: Sequence[Message]) -> None:
        """Stores a batch of one partition: the handler of the consumer.

        What a predecessor has stored already is dropped. Raises `StoreError`, after which the batch
        may be in the store, and `PositionMovedError`, after which reading must begin again.
        """
        records = [read_fresh(message) for message in batch]
        partition = (records[0].topic, records[0].partition)
        next_offset = records[-1].offset + 1
        place = (self._cluster, *partition)
        with self._database.begin() as connection:
            position = positions.read(self._database, connection, *place, lock=True)
            self._check(partition, position, self._next_offsets.get(partition))
            new = [each for each in records if position is None or each.offset >= position]
            if new:
                wanted, dead = self._sorted(new, self._database.now_ms(connection))
                messages.add(self._database, connection, wanted)
                dead_letters.add(self._database, connection, dead)
                positions.write(self._database, connection, *place, next_offset)
        self._next_offsets[partition] = max(next_offset, position or 0)

    def _check(self, partition: Partition, position: int | None, expected: int | None) -> None:
        if expected is not None and (position is None or position < expected):
            raise PositionMovedError(
                f"store {self._database}: {partition[0]}[{partition[1]}] is stored up to offset "
                f"{position}, and was up to {expected}: it is an older copy or another store; "
                "what it lacks is read again"
            )

    def _sorted(
        self, records: Sequence[Record], now_ms: int
    ) -> tuple[list[NewMessage], list[NewDeadLetter]]:
        """Divides them into those to send and those that never can be."""
        found = [read_request(each, self._destinations, now_ms) for each in records]
        return (
            [each for each in found if isinstance(each, NewMessage)],
            [each for each in found if isinstance(each, NewDeadLetter)],
        )


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
    that the topic does not have, without `offset` where the partition has the store's, and for a
    topic that was made again since; `UnknownTopicError`, `BrokerError` and `StoreError`.
    """
    topic, number = partition
    consumer = StandaloneConsumer(config, ANSWER_TIMEOUT_S)
    try:
        bounds, cluster = consumer.bounds(topic), consumer.cluster_id()
    finally:
        consumer.close()
    if number not in bounds:
        raise ConfigurationError(f"{topic} has no partition {number}; it has {len(bounds)}")
    first, end = bounds[number]
    is_change = reason is not None
    check_topic(database, cluster, [partition], config, binds=is_change)
    with database.begin() as connection:
        before = positions.read(database, connection, cluster, *partition, lock=is_change)
        to = _chosen(partition, offset, before, first, end)
        if reason is not None:
            positions.write(database, connection, cluster, *partition, to)
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
