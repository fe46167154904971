"""What a scheduler asks of Kafka and its store before it begins, whose topic may be a new one."""

from collections.abc import Collection, Mapping
from typing import Any

from linear_retry.errors import BrokerError, ConfigurationError
from linear_retry.kafka.topics.description import Topics
from linear_retry.kafka.topics.groups import Groups
from linear_retry.kafka.topics.standalone_consumer import ANSWER_TIMEOUT_S, StandaloneConsumer
from linear_retry.scheduler import positions
from linear_retry.scope import Partition
from linear_retry.store.database import Database
from linear_retry.store.sender import identity

_TRIES = 10


def check_topic(
    database: Database,
    cluster: str,
    partitions: Collection[Partition],
    config: Mapping[str, Any],
    *,
    takes_over: bool = False,
    binds: bool = True,
) -> None:
    """Checks that the topic of `partitions` is the one of which the store has positions.

    The first look binds it, unless `binds` is false, which changes nothing. Raises
    `ConfigurationError` for another of the same name: its first messages would be passed over.
    `takes_over`: reading begins at its beginning instead. Raises `BrokerError` and `StoreError`.
    """
    (topic,) = {name for name, _ in partitions}
    found = Topics(config).id_of(topic)
    if found is None:
        return
    setting = f"topic {cluster} {topic}"
    with database.reading() as connection:
        known = identity.read(connection, setting)
    if known == found:
        return
    first: Mapping[Partition, int] = {}
    if known is not None:
        if not takes_over:
            raise ConfigurationError(
                f"store {database}: {topic} was deleted and made again, and the store has the "
                "offsets of the earlier one: --take-over begins at the beginning of this one"
            )
        first = beginnings(config, partitions)
    if not binds:
        return
    with database.begin() as connection:
        # Another instance may have begun meanwhile: what it stored would be stored again.
        if identity.read(connection, setting, lock=True) == found:
            return
        if first:
            positions.forget(connection, cluster, topic)
        for each, offset in first.items():
            positions.write(database, connection, cluster, *each, offset)
        identity.write(database, connection, setting, found)


def cluster_and_partitions(config: Mapping[str, Any], topic: str) -> tuple[str, list[Partition]]:
    """Returns the id of the cluster, and the topic's partitions. Raises `BrokerError`."""
    consumer = StandaloneConsumer(config, ANSWER_TIMEOUT_S)
    try:
        numbers = consumer.partitions(topic)
        return consumer.cluster_id(), [(topic, number) for number in numbers]
    finally:
        consumer.close()


def check_continues(
    database: Database,
    cluster: str,
    partitions: list[Partition],
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
    with database.begin() as connection:
        unknown = [
            each
            for each in partitions
            if positions.read(database, connection, cluster, *each) is None
        ]
    read = _read(config, group_id, unknown)
    if takes_over:
        _take_over(database, cluster, read)
        return
    for (topic, number), offset in read.items():
        raise ConfigurationError(
            f"store {database} knows nothing of {topic}[{number}], which group {group_id!r} has "
            f"read up to offset {offset}: another store has those messages; give that store, or "
            "another --group to send again whatever is still in the topic, or --take-over to "
            "begin behind that offset"
        )


def beginnings(
    config: Mapping[str, Any], partitions: Collection[Partition]
) -> dict[Partition, int]:
    """Returns the first offset of each that the brokers have. Raises `BrokerError`."""
    consumer = StandaloneConsumer(config, ANSWER_TIMEOUT_S)
    try:
        bounds = {topic: consumer.bounds(topic) for topic, _ in partitions}
    finally:
        consumer.close()
    found = {(topic, number): bounds[topic][number][0] for topic, number in partitions}
    return {each: offset for each, offset in found.items() if offset >= 0}  # -1: a mock cluster


def _take_over(database: Database, cluster: str, offsets: Mapping[Partition, int]) -> None:
    with database.begin() as connection:
        for (topic, number), offset in offsets.items():
            place = (cluster, topic, number)
            # Another instance that takes over may have stored messages meanwhile.
            if positions.read(database, connection, *place, lock=True) is None:
                positions.write(database, connection, *place, offset)


def _read(
    config: Mapping[str, Any], group_id: str, partitions: list[Partition]
) -> dict[Partition, int]:
    """The committed offsets of the partitions of which the group has read anything.

    At its first assignment a group commits the beginning, which says nothing of a message.
    """
    committed = _committed(config, group_id, partitions) if partitions else {}
    first = beginnings(config, committed) if committed else {}
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
