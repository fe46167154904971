"""The scheduler's service on a real broker, over SQLite and PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice

import pytest
from confluent_kafka import Producer

from linear_retry import ConfigurationError, DataLossError, DeadLetters, LinearConsumer, Scheduler
from linear_retry.kafka import Message
from linear_retry.records.dead_letter import parse
from linear_retry.store.database import Database
from linear_retry.store.schema import inbox_place
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka
from tests.scheduler.running import (
    counts,
    places,
    put_place,
    records,
    request,
    running,
    settings,
)

pytestmark = pytest.mark.broker


def test_each_record_at_its_time(kafka: RealKafka, topic: TopicFactory, database: Database) -> None:
    """To its destination and partition, byte for byte and never early; in each partition in the
    order of time; what cannot be sent is dead in the store."""
    intake, destination = topic(2), topic(2)
    place = ("retry-original-partition", b"1")
    binary = ("trace", bytes(range(256)))
    kafka.produce(
        intake,
        [
            (0, b"key", b"later", request(destination, 3.0, place)),
            (0, None, b"sooner", request(destination, 1.5, place, binary, ("trace", None))),
            (1, b"key", None, request(destination)),
            (1, b"key", b"beyond", request(destination, 0, ("retry-original-partition", b"77"))),
            (1, b"key", b"garbled", [("retry-at-ms", b"soon")]),
        ],
    )
    with running(kafka, database, settings(kafka, intake)) as scheduler:
        found = scheduler.wait_for(destination, 4)
    second = [each for each in found if each.partition == 1 and each.value in (b"sooner", b"later")]
    assert [(b"sooner", None), (b"later", b"key")] == [(each.value, each.key) for each in second]
    assert [binary, ("trace", None)] == [each for each in second[0].headers if each[0] == "trace"]
    for each in found:
        assert int(dict(each.headers)["retry-at-ms"] or b"") <= each.timestamp_ms
    assert {None, b"sooner", b"later", b"beyond"} == {each.value for each in found}
    assert (0, 1) == counts(database)


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_group_that_lets_messages_go(
    kafka: RealKafka, topic: TopicFactory, database: Database
) -> None:
    """From a consumer to the scheduler and back to where each was, once for each delay; what is
    refused for ever is dead-lettered after the last, with one identity throughout."""
    source, intake, letters = topic(2), topic(2), topic(2)
    kafka.produce(source, [(1, b"key", b"saved", ()), (0, b"key", b"lost", ())])
    attempts: list[bytes | None] = []

    def handle(message: Message) -> None:
        value = message.value()
        attempts.append(value)
        if value == b"lost" or attempts.count(value) < 3:
            raise OSError("down")

    config = kafka.client_settings(**{"group.id": f"group-of-{source}"})
    with (
        running(kafka, database, settings(kafka, intake)) as scheduler,
        LinearConsumer(
            config,
            [source],
            strategy=[],
            transient=OSError,
            dead_letters=DeadLetters(letters, transactional=True),
            on_exhausted=Scheduler(intake, strategy=["500ms", "1s"]),
        ) as consumer,
        ThreadPoolExecutor(1) as pool,
    ):
        consuming = pool.submit(consumer.run, handle)
        try:
            (letter,) = scheduler.wait_for(letters, 1)
            wait_until(lambda: attempts.count(b"saved") == 3, "it is saved")
        finally:
            consumer.stop()
        consuming.result(PATIENCE_S)
    assert 3 == attempts.count(b"lost")
    read = parse(letter.headers, letter.key, letter.value)
    assert ("exhausted", 2, 3, source, 0) == (
        read.reason,
        read.step,
        read.failures,
        read.destination,
        read.original_partition,
    )
    returned = [each for each in records(kafka, source) if each.headers]
    assert [(0, b"lost")] * 2 + [(1, b"saved")] * 2 == sorted(
        (each.partition, each.value or b"") for each in returned
    )
    assert 2 == len({dict(each.headers)["retry-id"] for each in returned})


@pytest.mark.parametrize("mark", [("retry-send-to", b"retry"), ("retry-replay-id", b"1")])
def test_a_record_that_seems_to_have_come_back(
    kafka: RealKafka, topic: TopicFactory, sqlite_url: str, mark: tuple[str, bytes]
) -> None:
    """One for another group is passed over by consumers of this library; here it is a dead letter,
    as any other that would go to the scheduler's own topic."""
    intake, destination, database = topic(), topic(), Database(sqlite_url)
    crafted = request(intake, 0.0, mark, ("retry-group-id", b"another"))
    kafka.produce(intake, [(0, None, b"0", crafted), (0, None, b"1", request(destination))])
    with running(kafka, database, settings(kafka, intake)) as scheduler:
        scheduler.wait_for(destination, 1)
        wait_until(lambda: (0, 1) == counts(database), "it is dead")
    database.close()


def test_what_nobody_could_see_is_removed(
    kafka: RealKafka, topic: TopicFactory, sqlite_url: str
) -> None:
    """Aborted records behind the last message, or in place of any. The bug: when retention had
    removed them, the scheduler did not start any more, as if messages were lost."""
    intake, destination, database = topic(2), topic(), Database(sqlite_url)
    kafka.produce(intake, [(0, None, b"0", request(destination))])
    _abort(kafka, intake)
    ends = {0: 3, 1: 2}
    # The markers may be written after the abort was answered.
    wait_until(lambda: ends == kafka.end_offsets(intake), "it is aborted")
    wanted = settings(kafka, intake)
    with running(kafka, database, wanted) as scheduler:
        scheduler.wait_for(destination, 1)
        wait_until(lambda: ends == places(kafka, database, intake), "it is at the ends")
        committed = partial(kafka.committed, wanted.group_id, intake)
        wait_until(lambda: ends == committed(), "they are committed")
    for number, end in ends.items():
        kafka.delete_records(intake, number, end)
    kafka.produce(intake, [(number, None, b"1", request(destination)) for number in ends])
    with running(kafka, database, settings(kafka, intake)) as scheduler:
        scheduler.wait_for(destination, 3)
    database.close()


def _abort(kafka: RealKafka, topic: str) -> None:
    producer = Producer(kafka.client_settings(**{"transactional.id": f"writer-of-{topic}"}))
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    for number in range(2):
        producer.produce(topic, b"never", partition=number)
    producer.flush()
    producer.abort_transaction(PATIENCE_S)


def test_it_goes_on_where_it_ended(
    kafka: RealKafka, topic: TopicFactory, database: Database
) -> None:
    """A second start stores nothing again, whatever the group has committed."""
    intake, destination = topic(), topic()
    kafka.produce(intake, [(0, None, b"%d" % n, request(destination)) for n in range(3)])
    with running(kafka, database, settings(kafka, intake)) as scheduler:
        scheduler.wait_for(destination, 3)
    kafka.produce(intake, [(0, None, b"3", request(destination))])
    with running(kafka, database, settings(kafka, intake, group="another")) as scheduler:
        scheduler.wait_for(destination, 4)
    assert [b"0", b"1", b"2", b"3"] == [each.value for each in records(kafka, destination)]


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_partitions_without_a_message(
    kafka: RealKafka, topic: TopicFactory, database: Database
) -> None:
    """What the group has committed of them is no reason to refuse the second start."""
    intake, destination = topic(2), topic()
    kafka.produce(intake, [(0, None, b"0", request(destination))])
    with running(kafka, database, settings(kafka, intake)) as scheduler:
        scheduler.wait_for(destination, 1)
    kafka.produce(intake, [(1, None, b"1", request(destination))])
    with running(kafka, database, settings(kafka, intake)) as scheduler:
        scheduler.wait_for(destination, 2)


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_another_store(kafka: RealKafka, topic: TopicFactory, database: Database) -> None:
    """A store that knows nothing of what the group has read is refused; taking over is a choice."""
    intake, destination = topic(), topic()
    kafka.produce(intake, [(0, None, b"0", request(destination))])
    with running(kafka, database, settings(kafka, intake)) as scheduler:
        scheduler.wait_for(destination, 1)
    with database.begin() as connection:
        connection.execute(inbox_place.delete())
    with (
        pytest.raises(ConfigurationError, match="another store has those messages"),
        running(kafka, database, settings(kafka, intake)) as scheduler,
    ):
        scheduler.wait_for_end()
    kafka.produce(intake, [(0, None, b"1", request(destination))])
    with running(kafka, database, settings(kafka, intake, takes_over=True)) as scheduler:
        scheduler.wait_for(destination, 2)
    assert [b"0", b"1"] == [each.value for each in records(kafka, destination)]


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_the_topic_is_made_again(kafka: RealKafka, topic: TopicFactory, database: Database) -> None:
    """The store's offsets were those of the earlier topic, and as many messages of the new one were
    passed over: it is read from its beginning."""
    intake, destination = topic(2), topic()

    def produce(*numbers: int) -> None:
        kafka.produce(intake, [(0, None, b"%d" % n, request(destination)) for n in numbers])

    produce(0, 1, 2)
    with running(kafka, database, settings(kafka, intake)) as scheduler:
        scheduler.wait_for(destination, 3)
    kafka.delete_topic(intake)
    kafka.create_topic(intake)
    produce(3, 4, 5, 6)
    for expected in (7, 8):  # once
        with running(kafka, database, settings(kafka, intake)) as scheduler:
            scheduler.wait_for(destination, expected)
        produce(7)
    assert [b"%d" % n for n in range(8)] == [each.value for each in records(kafka, destination)]


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_retention_has_passed_the_position(
    kafka: RealKafka, topic: TopicFactory, database: Database
) -> None:
    """It does not go on behind a hole: it refuses, and names both offsets, and the remedy."""
    intake, destination = topic(), topic()
    kafka.produce(intake, [(0, None, b"%d" % n, request(destination)) for n in range(5)])
    put_place(kafka, database, intake, 2)
    kafka.delete_records(intake, 0, 4)
    with (
        pytest.raises(DataLossError, match=r"@2.*offset 4.*scheduler reset-offset"),
        running(kafka, database, settings(kafka, intake)) as scheduler,
    ):
        scheduler.wait_for_end()
    assert [] == records(kafka, destination)


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_topic_that_is_missing(kafka: RealKafka, database: Database) -> None:
    """It says so at the start."""
    with (
        pytest.raises(Exception, match="nowhere"),
        running(kafka, database, settings(kafka, "nowhere")) as scheduler,
    ):
        scheduler.wait_for_end()


def test_instances_come_and_go(kafka: RealKafka, topic: TopicFactory, postgres_url: str) -> None:
    """A second instance takes its share, the first one leaves: every message is sent once, and in
    the order of its partition."""
    intake, destination, numbers = topic(4), topic(4), iter(range(1000))
    first, second = Database(postgres_url), Database(postgres_url)

    def produce(count: int) -> None:
        places = [("retry-original-partition", b"%d" % number) for number in range(4)]
        kafka.produce(
            intake,
            [
                (number % 4, None, b"%d" % number, request(destination, 0.0, places[number % 4]))
                for number in islice(numbers, count)
            ],
        )

    with running(kafka, second, settings(kafka, intake)) as staying:
        with running(kafka, first, settings(kafka, intake)) as leaving:
            produce(100)
            leaving.wait_for(destination, 100)
            produce(50)
        produce(50)
        found = staying.wait_for(destination, 200)
        wait_until(lambda: (0, 0) == counts(second), "nothing is left")
    assert 200 == len(records(kafka, destination))
    for partition in range(4):
        values = [int(each.value or b"") for each in found if each.partition == partition]
        assert list(range(partition, 200, 4)) == values
    first.close()
    second.close()
