"""The brokers go down in the middle: every message arrives, and those of a key in order."""

import time
from collections import defaultdict
from itertools import count
from typing import Any

import pytest

from linear_retry.outbox import Outbox
from linear_retry.store import lanes
from linear_retry.store.database import Database
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.outbox.conftest import MakeOutbox
from tests.real_kafka import RealKafka

_MESSAGES = 3_000
_KEYS = 200


def _produce(outbox: Outbox, topic: str, numbers: range) -> None:
    for number in numbers:
        outbox.produce(topic, b"%d" % number, b"k%d" % (number % _KEYS))


def _check(kafka: RealKafka, topic: str, numbers: set[int]) -> None:
    values: dict[bytes | None, list[int]] = defaultdict(list)
    ids: dict[int, set[Any]] = defaultdict(set)
    for each in kafka.read(topic):
        number = int(each.value() or b"")
        values[each.key()].append(number)
        ids[number].add(dict(each.headers() or [])["retry-message-id"])
    assert numbers == ids.keys()
    assert [] == [number for number, found in ids.items() if len(found) > 1]
    for of_key in values.values():
        first = list(dict.fromkeys(of_key))
        assert sorted(first) == first
        assert max(map(of_key.count, first)) <= 2


def _is_empty(database: Database) -> bool:
    with database.reading() as connection:
        return not lanes.waiting(connection, "outbox")


def test_an_outage_loses_nothing_and_keeps_the_order_of_each_key(
    own_kafka: RealKafka, store_url: str, database: Database
) -> None:
    """Each message is there once, or twice with one id; afterwards messages are sent directly."""
    own_kafka.create_topic("orders", 4)
    config = own_kafka.client_settings(**{"message.timeout.ms": 1_000})
    third = _MESSAGES // 3
    with Outbox(config, store=store_url) as outbox:
        _produce(outbox, "orders", range(third))
        own_kafka.kill()
        _produce(outbox, "orders", range(third, 2 * third))
        assert 0 == outbox.flush()
        own_kafka.start()
        _produce(outbox, "orders", range(2 * third, _MESSAGES))
        assert 0 == outbox.flush()
        offsets: list[int | None] = []

        def is_direct_again() -> bool:
            number = _MESSAGES + len(offsets) * _KEYS
            outbox.produce(
                *("orders", b"%d" % number, b"k0"),
                on_delivery=lambda _, message: offsets.append(message.offset),
            )
            outbox.flush()
            return offsets[-1] is not None

        wait_until(is_direct_again, "a message is sent directly")
        wait_until(lambda: _is_empty(database), "the store has sent all")
    last = {_MESSAGES + number * _KEYS for number in range(len(offsets))}
    _check(own_kafka, "orders", last | set(range(_MESSAGES)))


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_lane_that_always_gets_more_leaves_the_store(
    kafka: RealKafka,
    topic: TopicFactory,
    make_outbox: MakeOutbox,
    up: dict[str, Any],
    down: dict[str, Any],
) -> None:
    """However fast messages of a key come, they are sent directly again, and in order."""
    name, numbers, offsets = topic(), count(), list[int | None]()

    def produce(outbox: Outbox) -> None:
        outbox.produce(
            *(name, b"%d" % next(numbers), b"k"),
            on_delivery=lambda _, message: offsets.append(message.offset),
        )

    with make_outbox(down) as before:
        for _ in range(100):
            produce(before)
    with make_outbox(up, sender=True) as outbox:
        until_s = time.monotonic() + 60.0
        while offsets.count(None) == len(offsets) and time.monotonic() < until_s:
            produce(outbox)
            outbox.poll(0.001)
        outbox.flush()
    assert {None} != set(offsets)
    values = [int(each.value() or b"") for each in kafka.read(name)]
    assert list(range(next(numbers))) == list(dict.fromkeys(values))
