"""Notices that the scheduler's topic was deleted and made again, and has other messages."""

from collections.abc import Collection, Mapping
from typing import Any

from linear_retry.errors import ConfigurationError
from linear_retry.kafka.topics.description import Topics
from linear_retry.scheduler.start import beginnings
from linear_retry.scope import Partition
from linear_retry.store import positions
from linear_retry.store.database import Database
from linear_retry.store.sender import identity


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
