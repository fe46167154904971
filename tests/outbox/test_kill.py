"""The application is killed: exactly the messages of committed transactions are sent."""

import subprocess
import sys
from collections import defaultdict
from typing import Any

from sqlalchemy import text

from linear_retry.outbox import Outbox
from linear_retry.store import lanes
from linear_retry.store.database import Database
from tests import dying_with_parent
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka

_LIVES = 3
_COMMITTED = 80
"""In each of the lives, at least: with those rolled back some 350 transactions in all."""


def _orders(database: Database) -> list[int]:
    with database.reading() as connection:
        return list(connection.scalars(text("SELECT number FROM shop_order ORDER BY number")))


def _live(database: Database, *arguments: str) -> None:
    """One life of the application, ended by kill -9 in the middle of its work."""
    command = [sys.executable, "-m", "tests.outbox.shop", *arguments]
    process = subprocess.Popen(dying_with_parent.guarded(*command))
    try:
        wanted = len(_orders(database)) + _COMMITTED
        wait_until(lambda: len(_orders(database)) >= wanted, "it stores orders")
    finally:
        process.kill()
        process.wait(PATIENCE_S)


def _is_sent(database: Database) -> bool:
    with database.reading() as connection:
        return not lanes.waiting(connection, "outbox")


def test_exactly_the_messages_of_committed_transactions_are_sent(
    kafka: RealKafka, topic: TopicFactory, store_url: str, database: Database
) -> None:
    """Killed three times while it stores and sends: each once, or once more for each of these
    times, with one id."""
    name = topic(3)
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE shop_order (number BIGINT PRIMARY KEY)"))
    for life in range(_LIVES):
        _live(database, store_url, kafka.bootstrap, name, str(1 + life * 100_000))
    with Outbox(kafka.client_settings(), store=store_url):
        wait_until(lambda: _is_sent(database), "the store has sent all")
    ids: dict[int, list[Any]] = defaultdict(list)
    for each in kafka.read(name):
        ids[int(each.value() or b"")].append(dict(each.headers() or [])["retry-message-id"])
    assert _orders(database) == sorted(ids)
    assert all(number % 3 for number in ids)
    assert {1} == {len(set(copies)) for copies in ids.values()}
    assert 1 + _LIVES >= max(map(len, ids.values()))
