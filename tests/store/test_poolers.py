"""A store behind PgBouncer in transaction mode, where any transaction may get any connection."""

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from sqlalchemy import create_engine, make_url, select

from linear_retry.consumer.settings.by_key import order_of
from linear_retry.consumer.settings.inbox import AsksBrokers
from linear_retry.inbox.places import Places
from linear_retry.kafka.consumer.messages import written
from linear_retry.records.record import Record
from linear_retry.retry.clock import SystemClock
from linear_retry.store.database import Database
from linear_retry.store.schema import setting
from linear_retry.store.sender.progress import Sent
from tests.conftest import TopicFactory
from tests.postgres.pgbouncer import PgBouncer
from tests.real_kafka import RealKafka
from tests.store.sender.scene import Scene

_MORE_THAN_PSYCOPG_PREPARES_AFTER = 7


@pytest.fixture
def pooled_url(postgres_url: str) -> Iterator[str]:
    """The URL of an empty store, through a pooler that has one connection for all."""
    with PgBouncer(postgres_url) as pooler:
        yield pooler.url


def _psycopg(url: str) -> psycopg.Connection:
    return psycopg.connect(make_url(url).render_as_string(hide_password=False), autocommit=True)


def test_our_limits_do_not_reach_the_connections_of_others(pooled_url: str) -> None:
    """The store's limits were set for the session: the application's own transactions, which got
    that connection next, were ended after 15 s idle, and its statements after a minute."""
    with closing(Database(pooled_url)) as database:
        with database.begin() as connection:
            database.now_ms(connection)
        with database.reading() as connection:
            database.now_ms(connection)
        with _psycopg(pooled_url) as others:
            shown = [
                others.execute(f"SHOW {name}".encode()).fetchone()
                for name in (
                    *("statement_timeout", "lock_timeout"),
                    *("idle_in_transaction_session_timeout", "transaction_isolation"),
                )
            ]
    assert [("0",), ("0",), ("0",), ("read committed",)] == shown


def test_two_clients_of_one_connection_prepare_no_statements(pooled_url: str) -> None:
    """Both would name theirs alike: the second got `prepared statement "_pg3_0" already exists`."""
    with closing(Database(pooled_url)) as first, closing(Database(pooled_url)) as second:
        for _ in range(_MORE_THAN_PSYCOPG_PREPARES_AFTER):
            for database in (first, second):
                with database.begin() as connection:
                    assert [] == connection.execute(select(setting)).all()


def test_an_inbox_behind_a_pooler(pooled_url: str) -> None:
    """Its places are claimed and written, each time through whatever connection there is."""
    url = make_url(pooled_url).set(drivername="postgresql+psycopg")
    engine = create_engine(url, connect_args={"prepare_threshold": None})
    asks = AsksBrokers(lambda names: dict.fromkeys(names, "id"), lambda *_: False)
    own = Database(pooled_url), "ledger", "ledger", "one", SystemClock()
    with closing(Places(*own, order_of(None, "ledger"))) as places:
        assert {("orders", 0): None} == places.claim(asks, [("orders", 0)])
        for offset in range(_MORE_THAN_PSYCOPG_PREPARES_AFTER):
            message = written(Record("orders", 0, offset, 1_000, b"key", b"value"))
            with engine.begin() as transaction:
                assert [message] == places.take(transaction, [message])
            places.committed([message])
        assert {} == places.lost([("orders", 0)])
        assert {("orders", 0): offset + 1} == places.claim(asks, [("orders", 0)])
    engine.dispose()


@pytest.mark.broker
def test_a_sender_behind_a_pooler(kafka: RealKafka, topic: TopicFactory, postgres_url: str) -> None:
    """Two instances share the lanes, and send each message once and in order."""
    name, count = topic(4), 2_000
    with PgBouncer(postgres_url, 2) as pooler, closing(Database(pooler.url)) as database:
        scene = Scene(kafka, database)
        first, second = scene.sender(lease_s=5.0), scene.sender(lease_s=5.0)
        for start in range(0, count, 200):
            scene.add_numbers(name, range(start, start + 200), partitions=4)
            first.step()
            second.step()
        scene.send_all(first, second)
        values = [int(value or b"") for value in scene.values(name, count)]
        assert [list(range(each, count, 4)) for each in range(4)] == [
            [number for number in values if number % 4 == each] for each in range(4)
        ]
        assert count == sum(each.count for each in scene.told if isinstance(each, Sent))
        scene.close()
