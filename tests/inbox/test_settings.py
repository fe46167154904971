"""An inbox that could not work is refused, before anything is read."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from linear_retry import (
    ConfigurationError,
    LinearConsumer,
    RetryTopics,
    UsageError,
    run_together,
)
from linear_retry.errors import StoreError, StoreVersionError
from linear_retry.inbox import Inbox
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import written
from linear_retry.records.record import Record
from tests.inbox.effects import Effects, engine_of, write

_NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "group.id": "ledger", "log_level": 0}


def _consumer(inbox: Any, **options: Any) -> LinearConsumer:
    given: dict[str, Any] = {"strategy": [1], "transient": OSError, "dead_letters": "letters"}
    return LinearConsumer(_NOWHERE, ["orders"], inbox=inbox, **(given | options))


def _handler(_: Message, __: Any) -> None:
    raise AssertionError("nothing is read")


def test_what_is_no_inbox(effects: Effects) -> None:
    """An engine alone, a value that begins nothing, a function without the database's URL."""
    with pytest.raises(ConfigurationError, match=r"write inbox=Inbox\(engine\)"):
        _consumer(effects.engine)
    with pytest.raises(ConfigurationError, match="must be an engine of SQLAlchemy, or a function"):
        Inbox("postgresql://localhost/shop")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="store is missing"):
        Inbox(effects.engine.begin)


def test_what_does_not_go_with_it(effects: Effects) -> None:
    """More than one writer of SQLite."""
    options: list[dict[str, Any]] = [
        {"scope": "partition", "concurrency": 2},
        {"scope": "key", "concurrency": 1},
    ]
    for each in options:
        if effects.engine.name == "sqlite":
            with pytest.raises(ConfigurationError, match="one writer at a time"):
                _consumer(Inbox(effects.engine), **each)
        else:
            _consumer(Inbox(effects.engine), **each).close()


@pytest.mark.parametrize("handler", [lambda message: None, lambda: None])
def test_a_handler_that_takes_no_transaction(
    effects: Effects, handler: Callable[..., None]
) -> None:
    """It is said at the call of `run`, and not by a letter for each message."""
    with (
        _consumer(Inbox(effects.engine)) as consumer,
        pytest.raises(UsageError, match="one message and its transaction"),
    ):
        consumer.run(handler)


def test_lines_of_which_one_has_an_inbox(effects: Effects) -> None:
    """They have one handler, which takes a transaction or does not."""
    retries = RetryTopics("orders.ledger.retry", strategy=[1])
    retry = LinearConsumer(
        _NOWHERE, retries, strategy=[], transient=OSError, dead_letters="letters"
    )
    with (
        _consumer(Inbox(effects.engine)) as live,
        pytest.raises(ConfigurationError, match="one line has an inbox, and the other has none"),
    ):
        run_together(live, lambda: retry, _handler, threads=True)
    with (
        _consumer(Inbox(effects.engine)) as live,
        pytest.raises(UsageError, match="one message and its transaction"),
    ):
        run_together(live, lambda: retry, lambda message: None, threads=True)


def test_transactions_of_the_other_kind(effects: Effects) -> None:
    """A plain engine would block the event loop; an asynchronous one needs one."""

    async def handler(_: Message, __: Any) -> None:
        raise AssertionError("nothing is read")

    with (
        _consumer(Inbox(effects.engine)) as consumer,
        pytest.raises(UsageError, match="run_async needs transactions"),
    ):
        asyncio.run(consumer.run_async(handler))
    url = effects.url.replace("postgresql:", "postgresql+psycopg:")
    if "sqlite" not in url:
        with (
            _consumer(Inbox(create_async_engine(url))) as consumer,
            pytest.raises(UsageError, match="only run_async has transactions"),
        ):
            consumer.run(_handler)
        with (
            _consumer(Inbox(create_async_engine(url))) as consumer,
            pytest.raises(UsageError, match="only run_async has transactions"),
        ):
            next(consumer)


@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_rehearsal_does_is_taken_back(in_postgres: Effects, is_async: bool) -> None:
    """Its effects and its place; what it raises is told as ever."""
    url = in_postgres.url.replace("postgresql:", "postgresql+psycopg:")
    message = written(Record("orders", 0, 5, 1_000, b"key", b"value"))
    seen: list[int] = []

    def look(transaction: Any) -> None:
        write(message, transaction)
        seen.append(transaction.execute(text("SELECT count(*) FROM effect")).scalar_one())
        if len(seen) == 2:
            raise ValueError("poison")

    def handler(_: Message, transaction: Any) -> None:
        look(transaction)

    async def async_handler(_: Message, transaction: Any) -> None:
        await transaction.run_sync(look)

    async def main() -> None:
        engine = create_async_engine(url)
        with _consumer(Inbox(engine)) as consumer:
            attempt = consumer._rehearsed(async_handler)
            await attempt(message)
            with pytest.raises(ValueError, match="poison"):
                await attempt(message)
        await engine.dispose()

    if is_async:
        asyncio.run(main())
    else:
        with _consumer(Inbox(in_postgres.engine)) as consumer:
            attempt = consumer._rehearsed(handler)
            attempt(message)
            with pytest.raises(ValueError, match="poison"):
                attempt(message)
    assert [1, 1] == seen
    assert [] == in_postgres.of()


def test_a_database_without_tables(postgres: Any) -> None:
    """The sentence names the command that makes them."""
    engine = engine_of(postgres.new_database("inbox_without_tables"))
    with (
        _consumer(Inbox(engine)) as consumer,
        pytest.raises(StoreVersionError, match="run `linear-retry scheduler migrate`"),
    ):
        consumer.run(_handler)
    engine.dispose()


def test_a_database_that_is_away_at_the_start() -> None:
    """It is said at once, as it is of brokers; a message that is held later waits for it."""
    engine = engine_of("postgresql://localhost:1/shop")
    with (
        _consumer(Inbox(engine)) as consumer,
        pytest.raises(StoreError, match="a later attempt may succeed"),
    ):
        consumer.run(_handler)
