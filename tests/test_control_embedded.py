"""Does a consumer live beside a control topic that is not there, with librdkafka's own clients?"""

from __future__ import annotations

import logging
import threading

import pytest
from confluent_kafka import Message

from linear_retry import ConfigurationError, Journal, LinearConsumer, Strategy
from linear_retry.testing import EmbeddedKafka
from tests.kafka_operations import wait_until


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
    """It is said in the log, nobody makes it, and every message is handled."""
    with EmbeddedKafka() as kafka, caplog.at_level(logging.WARNING, logger="linear_retry"):
        for topic in ("orders", "orders.dlq"):
            kafka.create_topic(topic)
        kafka.produce("orders", [b"%d" % number for number in range(5)])
        handled: list[int | None] = []
        consumer = _consumer(kafka.bootstrap, "no-such-topic")

        def live() -> None:
            with consumer:
                consumer.run(lambda message: handled.append(message.offset()))

        thread = threading.Thread(target=live)
        thread.start()
        wait_until(lambda: "no commands are heard from no-such-topic" in caplog.text, "it is said")
        wait_until(lambda: len(handled) == 5, "all is handled")
        consumer.stop()
        thread.join(30)
    assert "there is no topic 'no-such-topic'" in caplog.text


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
        ("orders.dlq", "control='orders.dlq': dead letters or a journal go there"),
        ("journal", "control='journal': dead letters or a journal go there"),
    ],
)
def test_a_control_topic_that_cannot_be_one_is_refused(control: str, reason: str) -> None:
    """At construction, with what is wrong about it."""
    with pytest.raises(ConfigurationError) as caught:
        _consumer("localhost:9092", control, listeners=[Journal("journal")])
    assert reason in str(caught.value)
