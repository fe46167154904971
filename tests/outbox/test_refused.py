"""A message that Kafka refuses does not take its neighbours with it, nor the order."""

from typing import Any

from sqlalchemy import select

from linear_retry import Strategy
from linear_retry.store.database import Database
from linear_retry.store.schema import dead_letter
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.outbox.conftest import MakeOutbox
from tests.real_kafka import RealKafka


def _dead(database: Database) -> list[tuple[bytes | None, str]]:
    with database.reading() as connection:
        rows = connection.execute(select(dead_letter).order_by(dead_letter.c.id))
        return [(row.value, row.reason) for row in rows]


def test_what_was_sent_with_a_message_that_is_too_large_arrives_in_order(
    make_outbox: MakeOutbox,
    up: dict[str, Any],
    kafka: RealKafka,
    topic: TopicFactory,
    database: Database,
) -> None:
    """The broker refuses the whole batch; only the message beyond the topic's limit is dead."""
    name = topic(1, {"max.message.bytes": "2000"})
    large = b"x" * 5_000
    outbox = make_outbox(up, sender=True)
    for number in range(50):
        outbox.produce(name, large if number == 20 else b"%d" % number, b"k")
    assert 0 == outbox.flush()
    small = [b"%d" % number for number in range(50) if number != 20]
    wait_until(lambda: len(kafka.read(name)) >= len(small), "the others are sent", 60.0)
    assert small == list(dict.fromkeys(each.value() for each in kafka.read(name)))
    assert [(large, "too-large")] == _dead(database)


def test_a_missing_topic_holds_up_no_other(
    make_outbox: MakeOutbox, up: dict[str, Any], kafka: RealKafka, topic: TopicFactory
) -> None:
    """Its messages wait as the strategy says, and are sent once it is there."""
    name = topic()
    missing = f"{name}-missing"
    waits = Strategy([{"every": 0.5, "times": 100}])
    settings = up | {"allow.auto.create.topics": False, "message.timeout.ms": 1_000}
    outbox = make_outbox(settings, sender=True, strategy=waits)
    outbox.produce(missing, b"1", b"k")
    outbox.produce(name, b"2", b"k")
    assert 0 == outbox.flush()
    wait_until(lambda: kafka.read(name), "the other topic's message is sent")
    kafka.create_topic(missing)
    wait_until(lambda: kafka.read(missing), "it is sent once its topic exists", 60.0)
    assert [[b"1"], [b"2"]] == [
        [one.value() for one in kafka.read(each)] for each in (missing, name)
    ]
