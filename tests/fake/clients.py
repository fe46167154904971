"""What the fake's own tests share."""

from collections.abc import Callable
from typing import Any

from confluent_kafka import OFFSET_INVALID, KafkaError, Message, TopicPartition

from linear_retry.scope import Partition
from tests.fake.cluster import FakeKafka
from tests.fake.consumer import FakeConsumer

COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}
P0: Partition = ("orders", 0)
P1: Partition = ("orders", 1)


def five_messages() -> FakeKafka:
    """In the first of two partitions."""
    fake = FakeKafka()
    fake.create_topic("orders", 2)
    for number in range(5):
        fake.append("orders", 0, str(number).encode())
    return fake


def alone(fake: FakeKafka, **config: Any) -> FakeConsumer:
    """No member of any group: it assigns by itself."""
    settings = {"group.id": "group", "auto.offset.reset": "earliest"}
    return fake.consumer(settings | _keys(config))


def joined(fake: FakeKafka, *partitions: Partition, **config: Any) -> FakeConsumer:
    """A member that the next poll will assign these to."""
    consumer = alone(fake, **config)
    consumer.subscribe(["orders"])
    fake.assign(consumer, partitions)
    return consumer


def _keys(config: dict[str, Any]) -> dict[str, Any]:
    callbacks = ("error_cb", "on_commit")
    return {k if k in callbacks else k.replace("_", "."): v for k, v in config.items()}


def place(partition: Partition, offset: int = OFFSET_INVALID) -> TopicPartition:
    return TopicPartition(*partition, offset)


def noting(codes: list[int | None]) -> Callable[[KafkaError | None, Message], None]:
    """A delivery callback that keeps the error's code."""
    return lambda error, _: codes.append(error.code() if error else None)


def offsets(consumer: FakeConsumer, count: int = 100) -> list[int | None]:
    """What a `consume` returns, errors included: those of no offset as None."""
    return [message.offset() for message in consumer.consume(count, 0)]


def calls(fake: FakeKafka, *names: str) -> list[tuple[str, Any]]:
    return [(call, arguments) for _, _, call, arguments in fake.log if call in names]
