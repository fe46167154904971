"""The scheduler while its store is away or full."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from linear_retry.errors import StoreError
from linear_retry.scheduler.intake import Intake
from linear_retry.store.database import Database
from linear_retry.store.migrations import migrate
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.postgres import Postgres
from tests.real_kafka import RealKafka
from tests.scheduler.running import counts, records, request, running, settings
from tests.scheduler.test_intake import CLUSTER, DESTINATIONS, PARTITION, batch, values


@pytest.mark.broker
def test_postgresql_is_stopped_and_started(
    kafka: RealKafka, topic: TopicFactory, caplog: pytest.LogCaptureFixture
) -> None:
    """The intake stands still and the sender waits; then all is stored, and sent once."""
    intake, destination = topic(), topic()
    caplog.set_level("INFO", "linear_retry")
    with Postgres() as server:
        database = Database(server.url)
        migrate(database)
        with running(kafka, database, settings(kafka, intake)) as scheduler:
            kafka.produce(intake, [(0, None, b"%d" % n, request(destination)) for n in range(50)])
            scheduler.wait_for(destination, 50)
            server.stop()
            more = [(0, None, b"%d" % n, request(destination)) for n in range(50, 100)]
            kafka.produce(intake, more)
            wait_until(lambda: "StoreError" in caplog.text, "the intake waits")
            wait_until(lambda: "waits for the store" in caplog.text, "the sender waits")
            server.start()
            scheduler.wait_for(destination, 100)
            wait_until(lambda: (0, 0) == counts(database), "nothing is left")
        database.close()
    assert [b"%d" % n for n in range(100)] == [each.value for each in records(kafka, destination)]


class _Full(Database):
    """A SQLite file that may not grow."""

    is_full = False

    @contextmanager
    def begin(self) -> Iterator[Any]:
        with super().begin() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            limit = pages if self.is_full else 2**30
            connection.exec_driver_sql(f"PRAGMA max_page_count={limit}")
            yield connection


def test_the_disk_is_full(sqlite_url: str) -> None:
    """The batch is not stored, in no part, and is attempted again until there is room."""
    database = _Full(sqlite_url)
    intake = Intake(database, DESTINATIONS, CLUSTER)
    intake.start_positions([PARTITION])
    intake.store(batch(0, 2))
    database.is_full = True
    for _ in range(2):
        with pytest.raises(StoreError, match="full"):
            intake.store(batch(2, 500))
    assert [b"0", b"1"] == values(database)
    database.is_full = False
    intake.store(batch(2, 500))
    assert [b"%d" % n for n in range(502)] == values(database)
    database.close()
