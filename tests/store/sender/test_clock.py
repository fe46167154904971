"""What an outbox has stored does not wait for a clock that was set back."""

from typing import Any

import pytest
from sqlalchemy import Connection

from linear_retry.store.database import Database
from linear_retry.store.sender.clock import ForwardClock
from tests.conftest import TopicFactory
from tests.real_kafka import RealKafka
from tests.store.sender.scene import Scene, due_message

_HOUR_MS = 3_600_000


class _SetBack(Database):
    """A store whose clock can be set back."""

    back_ms = 0

    def now_ms(self, connection: Connection) -> int:
        return super().now_ms(connection) - self.back_ms


class _Fixed(Database):
    """A store with a clock that shows what it is told."""

    at_ms = 0

    def now_ms(self, connection: Connection) -> int:
        return self.at_ms


def test_it_continues_where_the_databases_clock_is_set_back(sqlite_url: str) -> None:
    """By the time that passes here, until the other has come so far."""
    database, passed_s = _Fixed(sqlite_url), 0.0
    clock = ForwardClock(database, lambda: passed_s)

    def at(own_s: float, databases_ms: int) -> int:
        nonlocal passed_s
        passed_s, database.at_ms = own_s, databases_ms
        with database.reading() as connection:
            return clock.now_ms(connection)

    assert 1_000_000 == at(0.0, 1_000_000)
    assert 1_001_005 == at(1.0, 1_001_005)
    assert 1_002_005 == at(2.0, 500_000)
    assert 1_005_005 == at(5.0, 503_000)
    assert 1_005_999 == at(6.0, 1_005_999)
    assert 1_006_100 == at(6.5, 1_006_100)
    database.close()


@pytest.mark.broker
@pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
def test_an_outboxs_messages_are_sent_though_the_clock_is_set_back(
    store_url: str, kafka: RealKafka, topic: TopicFactory
) -> None:
    """Those that were stored before, and those behind them; a scheduler's wait for their time."""
    name, database = topic(), _SetBack(store_url)
    scene = Scene(kafka, database)

    def due_now(number: int, service: Any) -> None:
        with database.begin() as connection:
            due_ms = database.now_ms(connection) + database.back_ms
        scene.add(
            due_message(service=service, destination=name, due_ms=due_ms, value=b"%d" % number)
        )

    sender = scene.sender(service="outbox")
    due_now(1, "outbox")
    scene.send_all(sender)
    database.back_ms = _HOUR_MS
    due_now(2, "outbox")
    scene.send_all(sender)
    assert [b"1", b"2"] == list(scene.values(name, 2))
    due_now(3, "scheduler")
    other = scene.sender()
    for _ in range(3):
        other.step()
    assert 1 == scene.waiting()
    scene.close()
    database.close()
