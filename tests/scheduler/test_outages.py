"""The scheduler while its store is away or full."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest
from confluent_kafka import Consumer

from linear_retry.errors import StoreError, StoreVersionError
from linear_retry.store.database import Database
from linear_retry.store.migrations import migrate
from linear_retry.store.schema import metadata
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.postgres import Postgres
from tests.real_kafka import RealKafka
from tests.scheduler.running import counts, put_place, records, request, running, settings
from tests.scheduler.test_intake import batch, storing, values


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
    store = storing(database)
    store(batch(0, 2))
    database.is_full = True
    for _ in range(2):
        with pytest.raises(StoreError, match="full"):
            store(batch(2, 500))
    assert [b"0", b"1"] == values(database)
    database.is_full = False
    store(batch(2, 500))
    assert [b"%d" % n for n in range(502)] == values(database)
    database.close()


@pytest.mark.broker
def test_the_tables_are_dropped(kafka: RealKafka, topic: TopicFactory, database: Database) -> None:
    """While it runs: it ends with one sentence that says what to do."""
    intake, destination = topic(), topic()

    def run() -> None:
        with running(kafka, database, settings(kafka, intake)) as scheduler:
            kafka.produce(intake, [(0, None, b"0", request(destination))])
            scheduler.wait_for(destination, 1)
            _drop_tables(database)
            kafka.produce(intake, [(0, None, b"1", request(destination))])
            scheduler.wait_for_end()

    with pytest.raises(StoreVersionError, match="its tables were dropped") as ended:
        run()
    assert "\n" not in str(ended.value)


def _drop_tables(database: Database) -> None:
    """Again, where PostgreSQL ends this transaction: the scheduler locks them in another order."""

    def drop() -> bool:
        with suppress(StoreError), database.begin() as connection:
            metadata.drop_all(connection)
            return True
        return False

    wait_until(drop, "the tables are dropped")


class _Away(Database):
    """A store that nobody can reach for a time."""

    is_away = False

    @contextmanager
    def begin(self) -> Iterator[Any]:
        if self.is_away:
            raise StoreError("it is away")
        with super().begin() as connection:
            yield connection


@pytest.mark.broker
def test_the_store_is_away_at_a_rebalance(
    kafka: RealKafka, topic: TopicFactory, sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """However long: where reading begins is asked until there is an answer."""
    # With one partition, the other member might get it, and nobody would ask the store.
    intake, destination = topic(2), topic()
    database, wanted = _Away(sqlite_url), settings(kafka, intake)
    caplog.set_level("WARNING", "linear_retry")
    with running(kafka, database, wanted) as scheduler:
        kafka.produce(intake, [(0, None, b"0", request(destination))])
        scheduler.wait_for(destination, 1)
        database.is_away = True
        other = Consumer(kafka.client_settings(**{"group.id": wanted.group_id}))
        other.subscribe([intake])

        def waits_again() -> bool:
            other.poll(0.1)
            return "partitions start is not known: it is away" in caplog.text

        wait_until(waits_again, "it waits", lambda: caplog.text)
        other.close()
        database.is_away = False
        kafka.produce(intake, [(0, None, b"1", request(destination))])
        scheduler.wait_for(destination, 2)
    database.close()


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
@pytest.mark.broker
def test_the_brokers_are_away_when_a_copy_is_restored(
    own_kafka: RealKafka, database: Database
) -> None:
    """They are waited for, as at any other time; then what the copy lacks is read again."""
    own_kafka.create_topic("intake")
    own_kafka.create_topic("orders")
    with running(own_kafka, database, settings(own_kafka, "intake")) as scheduler:
        own_kafka.produce("intake", [(0, None, b"%d" % n, request("orders")) for n in range(2)])
        scheduler.wait_for("orders", 2)
        put_place(own_kafka, database, "intake", 1)
        own_kafka.kill()
        own_kafka.start()
        found = scheduler.wait_for("orders", 3)
    assert [b"0", b"1", b"1"] == [each.value for each in found]


@pytest.mark.broker
def test_the_disk_of_postgresql_is_full(
    kafka: RealKafka, topic: TopicFactory, postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The server's own error code: nothing is stored, in no part, until there is room."""
    intake, destination, database = topic(), topic(), Database(postgres_url)
    caplog.set_level("WARNING", "linear_retry")
    with database.begin() as connection:
        connection.exec_driver_sql(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS "
            "$$BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = '53100'; END$$"
        )
        connection.exec_driver_sql(
            "CREATE TRIGGER full_disk BEFORE INSERT ON linear_retry_message FOR EACH STATEMENT "
            "EXECUTE FUNCTION full_disk()"
        )
    kafka.produce(intake, [(0, None, b"%d" % n, request(destination)) for n in range(50)])
    with running(kafka, database, settings(kafka, intake)) as scheduler:
        wait_until(lambda: caplog.text.count("No space left") > 1, "it is attempted again")
        assert (0, 0) == counts(database)
        with database.begin() as connection:
            connection.exec_driver_sql("DROP TRIGGER full_disk ON linear_retry_message")
        found = scheduler.wait_for(destination, 50)
    assert [b"%d" % n for n in range(50)] == [each.value for each in found]
    database.close()


@pytest.mark.broker
def test_there_is_no_connection_to_postgresql_left(
    kafka: RealKafka, topic: TopicFactory, postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Intake and sender wait for one, and continue once there is one."""
    intake, destination, database = topic(), topic(), Database(postgres_url)
    caplog.set_level("INFO", "linear_retry")
    with running(kafka, database, settings(kafka, intake)) as scheduler:
        kafka.produce(intake, [(0, None, b"0", request(destination))])
        scheduler.wait_for(destination, 1)
        with ExitStack() as taken:
            for _ in range(15):
                taken.enter_context(database.begin())
            more = [(0, None, b"%d" % n, request(destination)) for n in range(1, 50)]
            kafka.produce(intake, more)
            wait_until(lambda: "StoreError" in caplog.text, "the intake waits")
            wait_until(lambda: "waits for the store" in caplog.text, "the sender waits")
        found = scheduler.wait_for(destination, 50)
    assert [b"%d" % n for n in range(50)] == [each.value for each in found]
    database.close()
