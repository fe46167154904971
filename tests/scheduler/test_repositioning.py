"""An intake whose offset is gone goes on where a person says."""

import json

import pytest
from sqlalchemy import func, select
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.store import audit
from linear_retry.store.database import Database
from linear_retry.store.schema import metadata
from tests.conftest import TopicFactory
from tests.real_kafka import RealKafka
from tests.scheduler.running import places, put_place, records, request, running, settings

pytestmark = pytest.mark.broker


class _Command:
    """`reset-offset` of one topic, over the store of the test."""

    def __init__(self, kafka: RealKafka, topic: str, store_url: str) -> None:
        self._arguments = ["scheduler", "reset-offset", "--topic", topic, "-b", kafka.bootstrap]
        self._store_url = store_url

    def __call__(self, partition: int, *more: str) -> tuple[int, str]:
        arguments = [*self._arguments, "--partition", str(partition), *more]
        done = CliRunner(env={"LINEAR_RETRY_STORE": self._store_url}).invoke(app, arguments)
        return done.exit_code, done.output


def test_it_goes_on_behind_what_retention_removed(
    kafka: RealKafka, topic: TopicFactory, database: Database, store_url: str
) -> None:
    """The bug: the scheduler refused to start, and nothing but SQL helped. A dry run changes
    nothing; the audit has who did it, and from where to where."""
    intake, destination = topic(), topic()
    kafka.produce(intake, [(0, None, b"%d" % n, request(destination)) for n in range(5)])
    put_place(kafka, database, intake, 2)
    kafka.delete_records(intake, 0, 4)
    run = _Command(kafka, intake, store_url)
    change = f"{intake}[0] from offset 2 to offset 4"
    has = "it begins at offset 4 and ends before 5"
    assert (0, f"would reset {change} ({has}); do it with --yes\n") == run(0)
    assert (0, f"reset: {change}\n") == run(0, "--by", "ops", "--why", "a test", "--yes")
    with running(kafka, database, settings(kafka, intake)) as scheduler:
        scheduler.wait_for(destination, 1)
    assert [b"4"] == [each.value for each in records(kafka, destination)]
    with database.reading() as connection:
        (entry,) = audit.read(connection, limit=9)
    assert ("ops", "reset-offset") == (entry.actor, entry.action)
    about = {"partition": f"{intake}[0]", "before": 2, "offset": 4, "comment": "a test"}
    assert about == entry.details


def test_it_goes_on_at_the_end_of_a_log_that_was_cut(
    kafka: RealKafka, topic: TopicFactory, database: Database, store_url: str
) -> None:
    """The bug: it went to the partition's first offset, and all that is there was sent again."""
    intake = topic()
    kafka.produce(intake, [(0, None, b"", ())] * 3)
    put_place(kafka, database, intake, 5)
    _, said = _Command(kafka, intake, store_url)(0, "--yes")
    assert f"reset: {intake}[0] from offset 5 to offset 3\n" == said


@pytest.mark.parametrize("more", [(), ("--yes",)])
def test_a_partition_that_has_the_offset_is_left_as_it_is(
    kafka: RealKafka,
    topic: TopicFactory,
    database: Database,
    store_url: str,
    more: tuple[str, ...],
) -> None:
    """The bug: a healthy partition was read from its first offset again, unless one was named."""
    intake = topic()
    kafka.produce(intake, [(0, None, b"", ())] * 3)
    put_place(kafka, database, intake, 2)
    run = _Command(kafka, intake, store_url)
    code, said = run(0, *more)
    assert (2, True) == (code, f"{intake}[0]@2: nothing to reset" in said and "--offset" in said)
    assert (0, f"reset: {intake}[0] from offset 2 to offset 0\n") == run(
        0, "--offset", "0", "--yes"
    )


def test_a_dry_run_writes_nothing(
    kafka: RealKafka, topic: TopicFactory, database: Database, store_url: str
) -> None:
    """The bug: it bound the store to the topic that was there, and made a row of the partition."""
    intake = topic()

    def rows() -> list[int]:
        with database.reading() as connection:
            return [
                connection.execute(select(func.count()).select_from(table)).scalar_one()
                for table in metadata.sorted_tables
            ]

    before = rows()
    code, said = _Command(kafka, intake, store_url)(0)
    assert (0, f"would reset {intake}[0] from no offset to offset 0") == (code, said.split(" (")[0])
    assert before == rows()


def test_an_offset_of_choice(
    kafka: RealKafka, topic: TopicFactory, database: Database, store_url: str
) -> None:
    """Any that the partition has, and its end; of another one is said which it has."""
    intake = topic()
    kafka.produce(intake, [(0, None, b"", ())] * 3)
    run = _Command(kafka, intake, store_url)
    assert (2, f"{intake} has no partition 1; it has 1\n") == run(1, "--yes")
    code, said = run(0, "--offset", "4", "--yes")
    assert (2, True) == (code, f"{intake}[0]@4" in said and "from 0 to 3" in said)
    _, line = run(0, "--offset", "3", "--yes", "--json")
    about = {"topic": intake, "partition": 0, "before": None, "offset": 3, "done": True}
    assert about | {"first": 0, "end": 3} == json.loads(line)
    assert {0: 3} == places(kafka, database, intake)


def test_a_topic_that_was_made_again(
    kafka: RealKafka, topic: TopicFactory, database: Database, store_url: str
) -> None:
    """The store knows nothing of it: it is read from its beginning anyway."""
    intake = topic()
    put_place(kafka, database, intake, 2)
    kafka.delete_topic(intake)
    kafka.create_topic(intake)
    code, said = _Command(kafka, intake, store_url)(0)
    assert (0, True) == (code, f"{intake}[0] from no offset to offset 0" in said)
