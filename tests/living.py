"""A consumer in a thread of a test's, on an embedded broker."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, Message

from linear_retry import LinearConsumer, Strategy
from linear_retry.consumer.settings.consumer_config import Dependencies
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from tests.patience import PATIENCE_S

_LONGEST_POLL_S = 0.05


class QuickConsumer(Consumer):
    """Looks often whether it is to stop: a poll of librdkafka's cannot be ended from outside."""

    def poll(self, timeout: float = _LONGEST_POLL_S) -> Message | None:
        return super().poll(min(timeout, _LONGEST_POLL_S))


@contextmanager
def broker_of_orders(*values: bytes) -> Iterator[EmbeddedKafka]:
    """With a topic of orders, these values in it, and those that go with it."""
    with EmbeddedKafka() as kafka:
        for topic in ("orders", "orders.dlq", "linear-retry.control", "linear-retry.journal"):
            kafka.create_topic(topic)
        kafka.produce("orders", values)
        yield kafka


def patient_consumer(bootstrap: str, **options: Any) -> LinearConsumer:
    """Of the orders; it would wait for an hour."""
    return LinearConsumer(
        {"bootstrap.servers": bootstrap, "group.id": "billing", "log_level": 0},
        ["orders"],
        **{
            "strategy": Strategy(["1h"]),
            "transient": ConnectionError,
            "dead_letters": "orders.dlq",
            "_dependencies": Dependencies(consumer=QuickConsumer),
            **options,
        },
    )


@contextmanager
def living(
    consumer: LinearConsumer,
    handler: Callable[[Message], object],
    live: Callable[[LinearConsumer, Callable[[Message], object]], object] | None = None,
) -> Iterator[LinearConsumer]:
    """It runs in a thread, by `live` where that is given, until the `with` is left."""
    thread = threading.Thread(target=live or _live, args=(consumer, handler))
    thread.start()
    try:
        yield consumer
    finally:
        consumer.stop()
        thread.join(PATIENCE_S)


def _live(consumer: LinearConsumer, handler: Callable[[Message], object]) -> None:
    with consumer:
        consumer.run(handler)
