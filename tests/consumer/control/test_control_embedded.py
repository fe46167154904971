"""A consumer lives beside a missing control topic, with librdkafka's own clients."""

import logging
import threading
import time
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Message

from linear_retry import ConfigurationError, Journal, LinearConsumer, Strategy, events
from linear_retry.kafka.producers.acknowledged import write_all
from linear_retry.records.control import Answer, Command, encode, read_control
from linear_retry.records.record import OutgoingRecord
from linear_retry.testing import EmbeddedKafka
from tests.kafka_operations import wait_until
from tests.living import living


def _consumer(bootstrap: str, control: str, **options: object) -> LinearConsumer:
    return LinearConsumer(
        {"bootstrap.servers": bootstrap, "group.id": "billing", "log_level": 0},
        ["orders"],
        strategy=Strategy([1]),
        transient=ConnectionError,
        dead_letters="orders.dlq",
        control=control,
        **options,  # type: ignore[arg-type]
    )


def test_a_missing_control_topic_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, nobody creates it, and every message is handled."""
    with EmbeddedKafka() as kafka, caplog.at_level(logging.WARNING, logger="linear_retry"):
        for topic in ("orders", "orders.dlq"):
            kafka.create_topic(topic)
        kafka.produce("orders", [b"%d" % number for number in range(5)])
        handled: list[int | None] = []
        consumer = _consumer(kafka.bootstrap, "no-such-topic")
        with living(consumer, lambda message: handled.append(message.offset())):
            emitted = "cannot read commands from no-such-topic"
            wait_until(lambda: emitted in caplog.text, "the missing topic in the log")
            wait_until(lambda: len(handled) == 5, "all is handled")
    assert "topic 'no-such-topic' does not exist" in caplog.text


def test_its_event_comes_on_the_thread_that_consumes() -> None:
    """As all events: a listener need not be ready for another thread."""
    received: list[tuple[events.Event, int]] = []
    command = Command(str(uuid4()), "retry", "billing", "orders", 0, 7, "ops@desk", _now_ms())
    with EmbeddedKafka() as kafka:
        for topic in ("orders", "orders.dlq", "control"):
            kafka.create_topic(topic)

        def listen(event: events.Event) -> None:
            received.append((event, threading.get_ident()))
            if isinstance(event, events.Assigned):
                record = OutgoingRecord("control", b"id", encode(command))
                write_all({"bootstrap.servers": kafka.bootstrap}, [record])
            if isinstance(event, events.CommandAnswered):
                consumer.stop()

        consumer = _consumer(kafka.bootstrap, "control", listeners=[listen])
        with consumer:
            consumer.run(lambda _: None)
        emitted = [value for message in _read(kafka) if (value := message.value()) is not None]
    (commanded,) = [event for event, _ in received if isinstance(event, events.CommandAnswered)]
    assert (command.command_id, "not-held") == (commanded.command_id, commanded.answer)
    assert {threading.get_ident()} == {thread for _, thread in received}
    answers = [one for one in map(read_control, emitted) if isinstance(one, Answer)]
    assert [(command.command_id, "not-held")] == [(one.command_id, one.answer) for one in answers]


def _read(kafka: EmbeddedKafka) -> list[Message]:
    """What is in the control topic; the answer is there once the consumer has closed."""
    keys = {"bootstrap.servers": kafka.bootstrap, "group.id": "reader", "log_level": 0}
    with Consumer({**keys, "auto.offset.reset": "earliest"}) as reader:
        reader.subscribe(["control"])
        found = [reader.poll(10.0), reader.poll(10.0)]
    return [message for message in found if message is not None]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_without_a_control_topic_nobody_follows_one() -> None:
    """Off unless it is named: no thread and no client more."""

    def look(_: Message) -> None:
        names.update(thread.name for thread in threading.enumerate())
        consumer.stop()

    with EmbeddedKafka() as kafka:
        for topic in ("orders", "orders.dlq"):
            kafka.create_topic(topic)
        kafka.produce("orders", [b"one"])
        names: set[str] = set()
        consumer = LinearConsumer(
            {"bootstrap.servers": kafka.bootstrap, "group.id": "billing", "log_level": 0},
            ["orders"],
            strategy=Strategy([1]),
            transient=ConnectionError,
            dead_letters="orders.dlq",
        )
        with consumer:
            consumer.run(look)
    assert "linear_retry control" not in names


@pytest.mark.parametrize(
    ("control", "reason"),
    [
        ("", "control='': the name of a topic"),
        ("a b", "control='a b': the name of a topic"),
        ("orders", "the source 'orders' matches 'orders'"),
        ("orders.dlq", "'orders.dlq' is the topic for commands and for dead letters"),
        ("journal", "'journal' is the topic for commands and for the journal"),
    ],
)
def test_a_control_topic_that_cannot_be_one_is_refused(control: str, reason: str) -> None:
    """At construction, with what is wrong about it."""
    with pytest.raises(ConfigurationError) as caught:
        _consumer("localhost:9092", control, listeners=[Journal("journal")])
    assert reason in str(caught.value)
