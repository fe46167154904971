"""Futures end once the message is durable, or known to be in neither place."""

import asyncio
import sqlite3
from typing import Any

import pytest
from sqlalchemy import make_url, select, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from linear_retry.errors import BrokerError
from linear_retry.outbox import AsyncOutbox, OutboxMessage
from linear_retry.store.database import Database
from linear_retry.store.schema import message
from tests.conftest import TopicFactory
from tests.real_kafka import RealKafka


def _values(database: Database) -> list[bytes | None]:
    with database.reading() as connection:
        return [row.value for row in connection.execute(select(message).order_by(message.c.id))]


def test_a_message_is_awaited_until_kafka_has_it(
    up: dict[str, Any], store_url: str, kafka: RealKafka, topic: TopicFactory
) -> None:
    """In the order of the calls, awaited one by one or together."""
    name = topic()

    async def scene() -> list[OutboxMessage]:
        async with AsyncOutbox(up, store=store_url, sender=False) as outbox:
            first = await outbox.produce(name, b"0", b"k")
            more = [outbox.produce(name, b"%d" % number, b"k") for number in range(1, 100)]
            return [first, *await asyncio.gather(*more)]

    sent = asyncio.run(scene())
    assert list(range(100)) == [each.offset for each in sent]
    assert [b"%d" % number for number in range(100)] == [each.value() for each in kafka.read(name)]


def test_a_message_is_awaited_until_the_store_has_it(
    down: dict[str, Any], store_url: str, database: Database
) -> None:
    """Where Kafka does not take it; one that must not be stored raises, and cancelling is safe."""

    async def scene() -> OutboxMessage:
        config = down | {"message.timeout.ms": 300}
        async with AsyncOutbox(config, store=store_url, sender=False) as outbox:
            given_up = outbox.produce("orders", b"1")
            given_up.cancel()
            with pytest.raises(BrokerError, match="_MSG_TIMED_OUT"):
                await outbox.produce("orders", b"2", retry=False)
            assert 0 == await outbox.flush()
            return await outbox.produce("orders", b"3")

    assert asyncio.run(scene()).offset is None
    assert [b"1", b"3"] == _values(database)


def test_a_message_that_cannot_be_stored_raises(
    down: dict[str, Any], store_url: str, database: Database
) -> None:
    """The store's exception comes out of the future."""

    async def scene() -> None:
        config = down | {"message.timeout.ms": 300}
        async with AsyncOutbox(config, store=store_url, sender=False) as outbox:
            with database.begin() as connection:
                connection.execute(text("ALTER TABLE linear_retry_message RENAME TO away"))
            with pytest.raises(Exception, match="linear_retry_message"):
                await outbox.produce("orders", b"1")

    asyncio.run(scene())


def test_produce_does_not_wait_for_the_store(down: dict[str, Any], sqlite_url: str) -> None:
    """While another has the database locked the loop is free, and the futures end afterwards."""
    writer = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)

    async def scene() -> list[OutboxMessage]:
        config = down | {"message.timeout.ms": 300}
        async with AsyncOutbox(config, store=sqlite_url, sender=False) as outbox:
            await outbox.produce("orders", b"first", b"k")
            writer.execute("BEGIN IMMEDIATE")
            futures = [outbox.produce("orders", b"%d" % number, b"k") for number in range(100)]
            assert not any(each.done() for each in futures)
            writer.rollback()
            return await asyncio.gather(*futures)

    assert [None] * 100 == [each.offset for each in asyncio.run(scene())]
    writer.close()


def test_a_message_is_stored_with_an_asynchronous_transaction(
    down: dict[str, Any], postgres_url: str
) -> None:
    """Of SQLAlchemy's AsyncConnection and AsyncSession."""

    async def scene() -> None:
        engine = create_async_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"))
        async with AsyncOutbox(down, store=postgres_url, sender=False) as outbox:
            async with engine.begin() as connection:
                await outbox.add(connection, "orders", b"1", b"k")
            async with AsyncSession(engine) as session, session.begin():
                await outbox.add(session, "orders", b"2", b"k")
            async with engine.connect() as connection:
                await outbox.add(connection, "orders", b"3", b"k")
                await connection.rollback()
        await engine.dispose()

    asyncio.run(scene())
    database = Database(postgres_url)
    assert [b"1", b"2"] == _values(database)
    database.close()


def test_add_does_not_wait_for_the_store(down: dict[str, Any], postgres_url: str) -> None:
    """While another has the lanes locked the loop is free, though the lane is a new one."""
    database = Database(postgres_url)
    with database.begin() as connection:
        name = make_url(postgres_url).database
        connection.execute(text(f"ALTER DATABASE \"{name}\" SET lock_timeout = '5s'"))
    database.close()

    async def scene() -> None:
        engine = create_async_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"))
        async with (
            AsyncOutbox(down, store=postgres_url, sender=False) as outbox,
            engine.connect() as locking,
            engine.begin() as connection,
        ):
            await locking.execute(text("LOCK TABLE linear_retry_lane"))
            adding = asyncio.create_task(outbox.add(connection, "orders", b"1", b"k"))
            assert set() == (await asyncio.wait([adding], timeout=0.3))[0]
            await locking.rollback()
            await adding
        await engine.dispose()

    asyncio.run(scene())
    assert [b"1"] == _values(database)
    database.close()
