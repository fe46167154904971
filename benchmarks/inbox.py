"""Measures what an inbox costs, beside the same handler with a transaction of its own."""

import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from itertools import count
from typing import Any, TypeAlias

from sqlalchemy import Engine, create_engine, text

from benchmarks.figures import Figure, Result, Target
from benchmarks.scale import Scale
from benchmarks.topics import config_of_new_group, filled_topic
from linear_retry import LinearConsumer
from linear_retry.inbox import Inbox
from linear_retry.kafka import Message
from linear_retry.store.database import Database
from linear_retry.store.migrations import migrate
from tests.postgres import Postgres
from tests.real_kafka import RealKafka

_BATCHES = Target("at most", 1.2)
_BATCH = 100
_KEYS, _WORKERS = 100, 8
_INSERT = text("INSERT INTO booking (number) VALUES (:number)")
_databases = count(1)
_RunAll: TypeAlias = Callable[..., float]
_Way: TypeAlias = tuple[str, int, _RunAll, dict[str, Any]]
"""A topic, how many messages it has, what handles them, and options of the consumer."""


def run(kafka: RealKafka, scale: Scale) -> Result:
    """They take turns, in one database each time."""
    single, batched = scale.lone_messages_each * 10, scale.lone_messages_each * 50
    keys = {"scope": "key", "concurrency": _WORKERS}
    ways: tuple[_Way, ...] = (
        (filled_topic(kafka, single, 1), single, _one_by_one, {}),
        (filled_topic(kafka, batched, 1), batched, _batches, {}),
        (filled_topic(kafka, single, 1, keys=_KEYS), single, _one_by_one, keys),
    )
    found: dict[tuple[bool, int], list[float]] = defaultdict(list)
    with Postgres() as server:
        for _ in range(scale.rounds):
            for number, way in enumerate(ways):
                for with_inbox in (False, True):
                    took_ms = _ms(server, kafka, *way, with_inbox=with_inbox)
                    found[with_inbox, number].append(took_ms)
    (alone, ours), (alone_batches, our_batches), (alone_keys, our_keys) = (
        (found[False, number], found[True, number]) for number in range(len(ways))
    )
    return Result(
        (
            Figure("own transaction, one by one", "ms/message", tuple(alone)),
            Figure("inbox, one by one", "ms/message", tuple(ours)),
            Figure("inbox / own, one by one", "x", _ratios(ours, alone)),
            Figure("own transaction, batches of 100", "ms/message", tuple(alone_batches)),
            Figure("inbox, batches of 100", "ms/message", tuple(our_batches)),
            Figure("inbox / own, batches", "x", _ratios(our_batches, alone_batches), _BATCHES),
            Figure(f"own transaction, {_WORKERS} keys at once", "ms/message", tuple(alone_keys)),
            Figure(f"inbox, {_WORKERS} keys at once", "ms/message", tuple(our_keys)),
            Figure("inbox / own, keys at once", "x", _ratios(our_keys, alone_keys)),
        ),
        notes=(
            f"{single:,} and {batched:,} messages of one partition, a row for each, in PostgreSQL "
            f"on the same machine, which does not wait for the disk; of {_KEYS} keys",
        ),
    )


def _ratios(ours: list[float], others: list[float]) -> tuple[float, ...]:
    return tuple(our / other for our, other in zip(ours, others, strict=True))


def _ms(
    server: Postgres,
    kafka: RealKafka,
    topic: str,
    messages: int,
    run_all: _RunAll,
    options: dict[str, Any],
    *,
    with_inbox: bool,
) -> float:
    """Milliseconds for each message."""
    url = server.new_database(f"inbox_{next(_databases)}")
    with closing(Database(url)) as database:
        migrate(database)
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"), pool_size=_WORKERS)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE booking (number INT)"))
    with LinearConsumer(
        config_of_new_group(kafka),
        [topic],
        strategy=[1],
        transient=OSError,
        on_exhausted="stop",
        on_permanent="stop",
        inbox=Inbox(engine) if with_inbox else None,
        **options,
    ) as consumer:
        took_s = run_all(consumer, engine, messages, with_inbox=with_inbox)
    engine.dispose()
    return took_s / messages * 1e3


def _one_by_one(
    consumer: LinearConsumer, engine: Engine, messages: int, *, with_inbox: bool
) -> float:
    began_s, done = 0.0, count(1)

    def book(message: Message, transaction: Any) -> None:
        nonlocal began_s
        began_s = began_s or time.perf_counter()
        transaction.execute(_INSERT, {"number": message.offset()})
        if next(done) == messages:
            consumer.stop()

    def alone(message: Message) -> None:
        with engine.begin() as transaction:
            book(message, transaction)

    consumer.run(book if with_inbox else alone)
    return time.perf_counter() - began_s


def _batches(consumer: LinearConsumer, engine: Engine, messages: int, *, with_inbox: bool) -> float:
    began_s = 0.0

    def book(batch: list[Message], transaction: Any) -> None:
        nonlocal began_s
        began_s = began_s or time.perf_counter()
        transaction.execute(_INSERT, [{"number": message.offset()} for message in batch])
        if batch[-1].offset() == messages - 1:
            consumer.stop()

    def alone(batch: list[Message]) -> None:
        with engine.begin() as transaction:
            book(batch, transaction)

    consumer.run_batches(book if with_inbox else alone, max_messages=_BATCH)
    return time.perf_counter() - began_s
