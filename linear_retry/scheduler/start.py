"""What a scheduler asks of Kafka and its store before it begins."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from linear_retry.errors import BrokerError, ConfigurationError
from linear_retry.kafka.topics.description import Topics
from linear_retry.kafka.topics.groups import Groups
from linear_retry.kafka.topics.standalone_consumer import ANSWER_TIMEOUT_S, StandaloneConsumer
from linear_retry.scope import Partition
from linear_retry.store.application import places
from linear_retry.store.application.places import Row
from linear_retry.store.database import Database

PLACES = "scheduler"
"""Whose places the store has: the scheduler's, whatever its consumer group is called."""
_TRIES = 10


def cluster_and_partitions(config: Mapping[str, Any], topic: str) -> tuple[str, list[Partition]]:
    """Returns the id of the cluster, and the topic's partitions. Raises `BrokerError`."""
    consumer = StandaloneConsumer(config, ANSWER_TIMEOUT_S)
    try:
        numbers = consumer.partitions(topic)
        return consumer.cluster_id(), [(topic, number) for number in numbers]
    finally:
        consumer.close()


def row_of(config: Mapping[str, Any], partition: Partition) -> Row:
    """Returns what names the partition's place, also where none is stored yet."""
    topic, number = partition
    return Row(PLACES, Topics(config).id_of(topic) or topic, number)


def stored_places(connection: Connection, topic_id: str) -> dict[int, int]:
    """Returns where the store continues in each partition of a topic that it knows."""
    rows = [row for row in places.read_all(connection, PLACES) if row.topic_id == topic_id]
    return {row.partition: row.next_offset for row in rows if row.next_offset >= 0}


def check_continues(
    database: Database,
    partitions: Sequence[Partition],
    config: Mapping[str, Any],
    group_id: str,
    *,
    takes_over: bool = False,
) -> None:
    """Checks that what the group has read was not stored elsewhere.

    Raises `ConfigurationError` where the store knows nothing of a partition of which the group has
    committed more than the beginning: to go on behind that would lose what another store took, to
    begin again would send it twice. `takes_over`: the store is given the group's offsets instead.
    Raises `BrokerError` and `StoreError`.
    """
    topic_id = row_of(config, partitions[0]).topic_id
    with database.reading() as connection:
        known = stored_places(connection, topic_id)
    read = _read(config, group_id, [each for each in partitions if each[1] not in known])
    if takes_over:
        _take_over(database, topic_id, read)
        return
    for (topic, number), offset in read.items():
        raise ConfigurationError(
            f"store {database} knows nothing of {topic}[{number}], which group {group_id!r} has "
            f"read up to offset {offset}: another store has those messages; give that store, or "
            "another --group to send again whatever is still in the topic, or --take-over to "
            "begin behind that offset"
        )


def beginnings(config: Mapping[str, Any], partitions: Sequence[Partition]) -> dict[Partition, int]:
    """Returns the first offset of each that the brokers have. Raises `BrokerError`."""
    consumer = StandaloneConsumer(config, ANSWER_TIMEOUT_S)
    try:
        bounds = {topic: consumer.bounds(topic) for topic, _ in partitions}
    finally:
        consumer.close()
    # A mock cluster says -1 of an empty one.
    return {(topic, number): max(bounds[topic][number][0], 0) for topic, number in partitions}


def _take_over(database: Database, topic_id: str, offsets: Mapping[Partition, int]) -> None:
    with database.begin() as connection:
        for (topic, number), offset in offsets.items():
            row = Row(PLACES, topic_id, number)
            claimed = places.claim(connection, database, row, topic, "take-over")
            # Another instance that takes over may have stored messages meanwhile.
            if claimed is not None and claimed.next_offset is None:
                places.put(connection, database, row, claimed.epoch, offset)


def _read(
    config: Mapping[str, Any], group_id: str, partitions: list[Partition]
) -> dict[Partition, int]:
    """The committed offsets of the partitions of which the group has read anything.

    At its first assignment a group commits the beginning, which says nothing of a message.
    """
    committed = _committed(config, group_id, partitions) if partitions else {}
    first = beginnings(config, [*committed]) if committed else {}
    return {each: offset for each, offset in committed.items() if offset > first.get(each, -1)}


def _committed(
    config: Mapping[str, Any], group_id: str, partitions: list[Partition]
) -> dict[Partition, int]:
    groups = Groups(config)
    for _ in range(_TRIES):  # a new cluster makes its topic for offsets at the first question
        found = groups.committed(group_id, partitions)
        if found is not None:
            return found
    raise BrokerError(
        f"group {group_id!r}: no answer about its committed offsets; check that this user may "
        "DESCRIBE the group, and try again"
    )
