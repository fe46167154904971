"""A store that is restored from a backup: what it lacks is read again, and nothing is lost."""

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from sqlite3 import connect

import pytest
from sqlalchemy import make_url, select

from linear_retry.store import messages
from linear_retry.store.database import Database
from linear_retry.store.schema import inbox_place, message
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.postgres import Postgres
from tests.real_kafka import RealKafka
from tests.scheduler.running import counts, put_place, records, request, running, settings

pytestmark = pytest.mark.broker


class _Sqlite:
    """The file, copied and restored by SQLite's own backup while it is in use."""

    def __init__(self, file: Path) -> None:
        self._file, self._copy = file, file.with_suffix(".copy")

    def back_up(self) -> None:
        self._copied(self._file, self._copy)

    def restore(self) -> None:
        self._copied(self._copy, self._file)

    def _copied(self, source: Path, target: Path) -> None:
        with (
            closing(connect(source)) as read,
            closing(connect(target, timeout=PATIENCE_S)) as written,
        ):
            read.backup(written)


class _Postgres:
    """A dump, restored as another database that then takes the place of the first."""

    def __init__(self, server: Postgres, url: str) -> None:
        self._server, self._url = server, url
        self._name = make_url(url).database or ""
        self._dump = b""

    def back_up(self) -> None:
        self._dump = self._server.run("pg_dump", "--format=custom", self._url)

    def restore(self) -> None:
        copy = self._server.new_database(f"{self._name}_copy", template="template0")
        self._server.run("pg_restore", f"--dbname={copy}", content=self._dump)
        self._server.rename_database(self._name, f"{self._name}_old")
        self._server.rename_database(f"{self._name}_copy", self._name)

    def drop(self) -> None:
        self._server.drop_database(f"{self._name}_old")


@pytest.fixture
def backup(request: pytest.FixtureRequest, store_url: str) -> Iterator[_Sqlite | _Postgres]:
    """Backs up the store, and restores it while it is in use."""
    if store_url.startswith("sqlite"):
        yield _Sqlite(Path(make_url(store_url).database or ""))
        return
    made = _Postgres(request.getfixturevalue("postgres"), store_url)
    yield made
    made.drop()


def test_a_backup_is_restored_while_it_runs(
    kafka: RealKafka, topic: TopicFactory, database: Database, backup: _Sqlite | _Postgres
) -> None:
    """What it lacks is read again, what it had is still sent; only what was sent since the backup
    comes twice, with the same headers."""
    intake, destination = topic(2), topic()

    def produce(number: int, in_s: float = 0.0) -> None:
        origin = ("retry-id", b"id-%d" % number)
        record = (number % 2, None, b"%d" % number, request(destination, in_s, origin))
        kafka.produce(intake, [record])

    with running(kafka, database, settings(kafka, intake)) as scheduler:
        produce(0)
        produce(1)
        produce(2, 3600.0)
        scheduler.wait_for(destination, 2)
        wait_until(lambda: (1, 0) == counts(database), "one waits")
        backup.back_up()
        produce(3)
        produce(4)
        produce(5, 3600.0)
        scheduler.wait_for(destination, 4)
        wait_until(lambda: (2, 0) == counts(database), "two wait")
        backup.restore()
        scheduler.wait_for(destination, 6)
        wait_until(lambda: (2, 0) == counts(database), "two wait again")
        with database.begin() as connection:
            ids = connection.execute(select(message.c.id)).scalars().all()
            messages.reschedule(database, connection, ids)
        found = scheduler.wait_for(destination, 8)
        wait_until(lambda: (0, 0) == counts(database), "nothing is left")
    times = Counter(each.value for each in found)
    assert {b"0": 1, b"1": 1, b"2": 1, b"3": 2, b"4": 2, b"5": 1} == times
    assert 6 == len({each.headers for each in found})


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_the_files_of_a_stopped_scheduler_are_replaced(
    kafka: RealKafka, topic: TopicFactory, database: Database, store_url: str, tmp_path: Path
) -> None:
    """SQLite's file and its log, copied together at one moment, are a backup as well."""
    intake, destination = topic(), topic()
    file = Path(make_url(store_url).database or "")
    files = [file, file.with_name(f"{file.name}-wal")]
    copies = [tmp_path / f"copy-{each.name}" for each in files]
    wanted = settings(kafka, intake)
    with running(kafka, database, wanted) as scheduler:
        kafka.produce(intake, [(0, None, b"0", request(destination))])
        scheduler.wait_for(destination, 1)
        with database.begin():  # nobody else writes meanwhile
            for each, copy in zip(files, copies, strict=True):
                shutil.copy(each, copy)
        kafka.produce(intake, [(0, None, b"1", request(destination))])
        scheduler.wait_for(destination, 2)
    database.close()
    for each, copy in zip(files, copies, strict=True):
        shutil.copy(copy, each)
    with running(kafka, database, wanted) as scheduler:
        found = scheduler.wait_for(destination, 3)
    assert [b"0", b"1", b"1"] == [each.value for each in found]


def test_a_copy_that_is_restored(kafka: RealKafka, topic: TopicFactory, database: Database) -> None:
    """While it runs the store becomes an older one: what it lacks is read again, nothing is lost,
    and what is sent twice has the same place in its headers."""
    intake, destination = topic(), topic()
    with running(kafka, database, settings(kafka, intake)) as scheduler:
        kafka.produce(intake, [(0, None, b"%d" % n, request(destination)) for n in range(5)])
        scheduler.wait_for(destination, 5)
        put_place(kafka, database, intake, 3)
        kafka.produce(intake, [(0, None, b"5", request(destination))])
        scheduler.wait_for(destination, 8)
    values = [each.value for each in records(kafka, destination)]
    assert [b"0", b"1", b"2", b"3", b"4", b"3", b"4", b"5"] == values


def test_a_copy_that_is_restored_while_nothing_comes(
    kafka: RealKafka, topic: TopicFactory, database: Database
) -> None:
    """What the copy lacks does not wait for the next message of its partition."""
    intake, destination = topic(), topic()
    with running(kafka, database, settings(kafka, intake)) as scheduler:
        kafka.produce(intake, [(0, None, b"%d" % n, request(destination)) for n in range(3)])
        scheduler.wait_for(destination, 3)
        put_place(kafka, database, intake, 2)
        scheduler.wait_for(destination, 4)
    assert [b"0", b"1", b"2", b"2"] == [each.value for each in records(kafka, destination)]


def _forget(database: Database, partition: int) -> None:
    """What a copy from before its first message does."""
    with database.begin() as connection:
        connection.execute(inbox_place.delete().filter_by(partition=partition))


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_copy_that_lacks_a_partition_that_was_added(
    kafka: RealKafka, topic: TopicFactory, database: Database
) -> None:
    """It is read from its beginning; `--take-over` was meant for the store of the start alone."""
    intake, destination = topic(), topic()
    quick = {"topic.metadata.refresh.interval.ms": 300}
    wanted = settings(kafka, intake, config=quick, takes_over=True)
    with running(kafka, database, wanted) as scheduler:
        kafka.produce(intake, [(0, None, b"0", request(destination))])
        scheduler.wait_for(destination, 1)
        kafka.add_partitions(intake, 2)
        kafka.produce(intake, [(1, None, b"1", request(destination))])
        scheduler.wait_for(destination, 2)
        wait_until(lambda: kafka.committed(wanted.group_id, intake).get(1), "committed")
        _forget(database, 1)
        found = scheduler.wait_for(destination, 3)
    assert [b"0", b"1", b"1"] == [each.value for each in found]


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_another_instance_takes_a_partition_that_the_copy_lacks(
    kafka: RealKafka, topic: TopicFactory, database: Database
) -> None:
    """It reads it from its beginning: behind the committed offset it would leave a hole."""
    intake, destination = topic(), topic()
    sticky = {"partition.assignment.strategy": "cooperative-sticky"}
    wanted = settings(kafka, intake, config=sticky)
    with running(kafka, database, wanted) as leaving:
        kafka.produce(intake, [(0, None, b"0", request(destination))])
        leaving.wait_for(destination, 1)
        with running(kafka, database, wanted) as staying:
            wait_until(lambda: len(kafka.group_members(wanted.group_id)) == 2, "both are there")
            kafka.produce(intake, [(0, None, b"%d" % n, request(destination)) for n in (1, 2)])
            staying.wait_for(destination, 3)
            wait_until(lambda: kafka.committed(wanted.group_id, intake) == {0: 3}, "committed")
            _forget(database, 0)
            leaving.service.stop()
            found = staying.wait_for(destination, 6)
    assert [b"0", b"1", b"2"] * 2 == [each.value for each in found]
