"""Is what docs/operating.md says true?"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Message, Producer

from linear_retry import LinearConsumer, Strategy
from linear_retry.kafka.embedded import EmbeddedKafka
from linear_retry.kafka.plain import read_all
from tests.kafka_operations import wait_until
from tests.markdown import blocks, page

_CODE = "\n".join(blocks(page("docs/operating.md"), "python"))


class Dependency:
    """Down until it is up."""

    def __init__(self) -> None:
        self.is_up = False
        self.took: list[bytes | None] = []

    def __call__(self, message: Message) -> None:
        if not self.is_up:
            raise ConnectionError("down")
        self.took.append(message.value())


@contextmanager
def consuming(broker: EmbeddedKafka, handler: Dependency, **page_says: Any) -> Iterator[Any]:
    """A consumer that would wait for an hour, and runs in a thread of its own."""
    consumer = LinearConsumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "billing"},
        ["orders"],
        strategy=Strategy(["1h"]),
        transient=ConnectionError,
        **page_says,
    )

    def live() -> None:
        with consumer:
            consumer.run(handler)

    thread = threading.Thread(target=live)
    thread.start()
    try:
        yield consumer
    finally:
        consumer.stop()
        thread.join(30)


@pytest.fixture
def broker() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("orders", 1)
        kafka.create_topic("orders.dlq", 1)
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
        for value in (b"first", b"second"):
            producer.produce("orders", value)
        assert 0 == producer.flush(10)
        yield kafka


def test_the_code_operates_a_consumer(broker: EmbeddedKafka) -> None:
    """One message is given up, the next retried, and what is held is seen: as the page says."""
    names: dict[str, Any] = {}
    exec(compile(_CODE, "operating.md", "exec"), names)
    handler = Dependency()
    with consuming(broker, handler, dead_letters=names["dead_letters"]) as consumer:
        first, second = ("orders", 0, 0), ("orders", 0, 1)
        wait_until(lambda: first in names["held"](consumer), "the first is held")
        assert {first: "ConnectionError('down')"} == names["held"](consumer)
        assert names["give_up"](consumer, *first)
        wait_until(lambda: second in names["held"](consumer), "the second is held")
        assert not names["give_up"](consumer, *first)
        handler.is_up = True
        assert [second] == names["retry_all"](consumer)
        wait_until(lambda: [b"second"] == handler.took, "the second is handled")
        wait_until(lambda: {} == names["held"](consumer), "nothing is held")
    (letter,) = read_all(broker.bootstrap, "orders.dlq", 1)
    assert (b"first", b"given-up") == (letter.value, letter.headers["retry-reason"])
