"""The store's positions are of the topic that it knows, and of no other of the same name."""

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from linear_retry.scheduler import positions, start
from linear_retry.scheduler.start import beginnings, cluster_and_partitions
from linear_retry.scope import Partition
from linear_retry.store.database import Database
from linear_retry.store.sender import identity
from tests.conftest import TopicFactory
from tests.real_kafka import RealKafka


def test_two_instances_take_over(
    kafka: RealKafka, topic: TopicFactory, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slower one begins where the faster one is; it began at the beginning again."""
    name, config = topic(), kafka.client_settings()
    cluster, partitions = cluster_and_partitions(config, name)
    with database.begin() as connection:
        identity.write(database, connection, f"topic {cluster} {name}", "the earlier one")
        positions.write(database, connection, cluster, name, 0, 99)

    def take_over() -> None:
        start.check_topic(database, cluster, partitions, config, takes_over=True)

    def meanwhile(
        config: Mapping[str, Any], partitions: Collection[Partition]
    ) -> Mapping[Partition, int]:
        monkeypatch.undo()
        take_over()
        with database.begin() as connection:
            positions.write(database, connection, cluster, name, 0, 7)
        return beginnings(config, partitions)

    monkeypatch.setattr(start, "beginnings", meanwhile)
    take_over()
    with database.begin() as connection:
        assert 7 == positions.read(database, connection, cluster, name, 0)
