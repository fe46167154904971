"""PostgreSQL is stopped and started under an outbox."""

from collections import defaultdict
from typing import Any

import pytest

from linear_retry.errors import StoreError
from linear_retry.outbox import Outbox, OutboxMessage
from linear_retry.store.database import Database
from linear_retry.store.migrations import migrate
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.postgres import Postgres
from tests.real_kafka import RealKafka

pytestmark = pytest.mark.broker


class _Told:
    """What an outbox has told, by the message's value."""

    def __init__(self) -> None:
        self.stored: set[bytes | None] = set()
        self.sent: set[bytes | None] = set()
        self.failed: dict[bytes | None, Any] = {}
        self.recovered: dict[bytes | None, Exception] = {}

    def on_delivery(self, error: Any, message: OutboxMessage) -> None:
        if error is not None:
            self.failed[message.value] = error
        elif message.offset is None:
            self.stored.add(message.value)
        else:
            self.sent.add(message.value)

    def recover(self, message: OutboxMessage, error: Exception) -> None:
        self.recovered[message.value] = error


def _produce(outbox: Outbox, topic: str, told: _Told, numbers: range) -> set[bytes]:
    for number in numbers:
        outbox.produce(topic, b"%d" % number, b"k", on_delivery=told.on_delivery)
    assert 0 == outbox.flush()
    return {b"%d" % number for number in numbers}


def test_every_message_is_sent_stored_or_told_of(
    kafka: RealKafka, topic: TopicFactory, down: dict[str, Any]
) -> None:
    """Without either each has the store's error; where Kafka takes them, the store is no matter."""
    name, told, directly = topic(), _Told(), _Told()
    with Postgres() as server:
        database = Database(server.url)
        migrate(database)
        database.close()
        config = down | {"message.timeout.ms": 300}
        with (
            Outbox(config, store=server.url, sender=False, recover=told.recover) as outbox,
            Outbox(kafka.client_settings(), store=server.url, sender=False) as direct,
        ):
            stored = _produce(outbox, name, told, range(5))
            assert stored == told.stored
            server.stop()
            lost = _produce(outbox, name, told, range(5, 25))
            assert lost == told.failed.keys() == told.recovered.keys()
            errors = [*told.failed.values(), *told.recovered.values()]
            assert all(isinstance(error, StoreError) for error in errors)
            assert ("failing", False) == (outbox.health().state, outbox.health().ready)
            assert _produce(direct, name, directly, range(100, 105)) == directly.sent
            server.start()
            stored |= _produce(outbox, name, told, range(25, 30))
            assert stored == told.stored
            wait_until(lambda: outbox.health().ready, "it is ready", detail=outbox.health)
            assert (10, 20) == (outbox.counts.stored, outbox.counts.lost)
        with Outbox(kafka.client_settings(), store=server.url) as heir:
            wait_until(lambda: heir.counts.sent == 10, "the store has sent all", heir.health)
    values = [int(each.value() or b"") for each in kafka.read(name)]
    assert [*range(100, 105), *range(5), *range(25, 30)] == values


def test_kafka_is_there_before_the_store(kafka: RealKafka, topic: TopicFactory) -> None:
    """One message that Kafka did not take, and all others were given up while the store was away,
    though Kafka took them."""
    name, told = topic(), _Told()
    quick = {"allow.auto.create.topics": False, "topic.metadata.propagation.max.ms": 100}
    config = kafka.client_settings(**quick) | {"message.timeout.ms": 60_000}
    with Postgres() as server:
        database = Database(server.url)
        migrate(database)
        database.close()
        with Outbox(config, store=server.url, sender=False) as outbox:
            server.stop()
            outbox.produce(f"{name}-missing", b"missing", on_delivery=told.on_delivery)
            wait_until(lambda: not outbox.health().ready, "it fails", outbox.health)
            for number in range(1_000):
                key = b"k%d" % (number % 7)
                outbox.produce(name, b"%d" % number, key, on_delivery=told.on_delivery)
            wait_until(lambda: outbox.poll(0.1) >= 0 and len(told.sent) == 1_000, "they are sent")
            server.start()
            assert 0 == outbox.flush()
            assert ({b"missing"}, {}) == (told.stored, told.failed)
    of_key: dict[bytes | None, list[int]] = defaultdict(list)
    for each in kafka.read(name):
        of_key[each.key()].append(int(each.value() or b""))
    firsts = {key: list(dict.fromkeys(values)) for key, values in of_key.items()}
    assert firsts == {b"k%d" % key: list(range(key, 1_000, 7)) for key in range(7)}
