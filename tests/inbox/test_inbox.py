"""What a handler writes through its transaction is there once for each message, in order."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import sessionmaker

from linear_retry import (
    BatchError,
    DeadLetters,
    Event,
    LinearConsumer,
    RetryTopics,
    events,
    run_together,
)
from linear_retry.inbox import Inbox
from linear_retry.kafka import Message
from tests.conftest import TopicFactory
from tests.inbox.effects import GROUP, Effects, write
from tests.kafka_operations import wait_until
from tests.real_kafka import RealKafka

pytestmark = pytest.mark.broker


class Ledger:
    """A topic with letters, and consumers of it with an inbox."""

    def __init__(self, kafka: RealKafka, topic: TopicFactory, effects: Effects) -> None:
        self.kafka = kafka
        self.effects = effects
        self.make_topic = topic
        self.name, self.letters = "", topic()
        self.events: list[Event] = []

    def fill(self, count: int, partitions: int = 1) -> None:
        self.name = self.name or self.make_topic(partitions)
        self.kafka.produce(
            self.name, [(p, b"key", b"%d" % n, []) for p in range(partitions) for n in range(count)]
        )

    def consumer(
        self, inbox: Inbox | None = None, topics: Any = None, **options: Any
    ) -> LinearConsumer:
        config = self.kafka.client_settings(
            **{"group.id": f"{GROUP}-{self.name}", "auto.offset.reset": "earliest"}
        )
        given: dict[str, Any] = {
            "strategy": [0.05, 0.1],
            "transient": OSError,
            "dead_letters": DeadLetters(self.letters, transactional=True),
            "listeners": [self.events.append],
        }
        inbox = inbox or Inbox(self.effects.engine)
        return LinearConsumer(config, topics or [self.name], inbox=inbox, **(given | options))

    def run(self, until: int, handler: Callable[..., None] = write, **options: Any) -> None:
        """Runs one consumer until the place of each partition is at least that."""
        with self.consumer(**options) as consumer, self.stopping(consumer, until):
            consumer.run(handler)

    @contextmanager
    def stopping(self, consumer: LinearConsumer, until: int) -> Iterator[None]:
        def watch() -> None:
            wait_until(lambda: has_ended or self.is_done(until), f"all before {until} is done")
            consumer.stop()

        has_ended: list[bool] = []
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            yield
        finally:
            has_ended.append(True)
            watcher.join()

    def is_done(self, until: int) -> bool:
        places = self.effects.places(self.name)
        return bool(places) and all(offset >= until for offset in places)


@pytest.fixture
def ledger(kafka: RealKafka, topic: TopicFactory, effects: Effects) -> Ledger:
    """With SQLite, and then PostgreSQL."""
    return Ledger(kafka, topic, effects)


@pytest.fixture
def in_postgres_(kafka: RealKafka, topic: TopicFactory, in_postgres: Effects) -> Ledger:
    return Ledger(kafka, topic, in_postgres)


class Failing:
    """A handler that writes its effect, and then fails so often at some offsets."""

    def __init__(self, failures: dict[int, list[Exception]]) -> None:
        self.failures = failures
        self.attempts: list[int] = []

    def __call__(self, message: Message, transaction: Any) -> None:
        offset = message.offset() or 0
        self.attempts.append(offset)
        write(message, transaction)
        if left := self.failures.get(offset):
            raise left.pop()


def test_each_effect_is_there_once(ledger: Ledger) -> None:
    """A failure takes its effect back, and the next attempt makes it; what becomes a letter has
    none."""
    ledger.fill(10)
    failing = Failing({3: [OSError("down"), OSError("down")], 5: [ValueError("poison")]})
    ledger.run(10, failing)
    assert [0, 1, 2, 3, 4, 6, 7, 8, 9] == ledger.effects.of()
    assert [0, 1, 2, 3, 3, 3, 4, 5, 6, 7, 8, 9] == failing.attempts
    assert [10] == ledger.effects.places(ledger.name)
    assert [b"5"] == [letter.value() for letter in ledger.kafka.read(ledger.letters)]


def test_reading_begins_where_the_database_is(ledger: Ledger) -> None:
    """Whatever the group has committed: an offset that was set back repeats no effect, and a
    database that was restored gets again what it lacks."""
    ledger.fill(5)
    ledger.run(5)
    group = f"{GROUP}-{ledger.name}"
    ledger.kafka.commit(group, ledger.name, {0: 1})
    ledger.fill(3)
    ledger.run(8)
    assert [*range(8)] == ledger.effects.of()
    ledger.effects.set_place(6)
    ledger.fill(1)
    ledger.run(9)
    assert [*range(9)] == ledger.effects.of()


def test_a_letter_that_was_sent_before_a_kill_is_not_sent_again(ledger: Ledger) -> None:
    """The letter and its offset are committed; the database has only that it was about to leave."""
    ledger.fill(2)
    ledger.run(2, Failing({1: [ValueError("poison")]}))
    with ledger.effects.engine.begin() as connection:
        connection.execute(text("UPDATE linear_retry_inbox_place SET next_offset = 1, leaving = 1"))
    ledger.fill(1)
    ledger.run(3)
    assert [0, 2] == ledger.effects.of()
    assert 1 == len(ledger.kafka.read(ledger.letters))


def test_a_message_that_comes_back_twice(ledger: Ledger) -> None:
    """As after a replay that was killed and begun again: its effect is there once."""
    ledger.fill(1)
    ledger.run(1, Failing({0: [ValueError("poison")]}))
    (letter,) = ledger.kafka.read(ledger.letters)
    headers = [*(letter.headers() or []), ("retry-replay-id", b"1")]
    twice = [(0, letter.key(), letter.value(), headers)] * 2
    ledger.kafka.produce(ledger.name, twice)
    handler = Failing({})
    ledger.run(3, handler)
    assert [1] == ledger.effects.of() == handler.attempts


def test_a_database_that_is_away(ledger: Ledger) -> None:
    """It is an outage, whatever `transient` says: the message is held, and none is given up."""
    ledger.fill(3)
    broken = [True] * 3

    @contextmanager
    def begin() -> Iterator[Any]:
        if broken and ledger.effects.of():
            broken.pop()
            raise psycopg.OperationalError("the connection is lost")
        with ledger.effects.engine.begin() as connection:
            yield connection

    ledger.run(3, inbox=Inbox(begin, store=ledger.effects.url), strategy=[0.01] * 4)
    assert [0, 1, 2] == ledger.effects.of()
    assert [] == broken
    opened = [event for event in ledger.events if isinstance(event, events.CircuitOpened)]
    assert [1] == [event.offset for event in opened]


def test_batches(ledger: Ledger) -> None:
    """A batch is one transaction: a failure takes all of it back, and `BatchError` too."""
    ledger.fill(20)
    failures: list[Exception] = [BatchError(2, OSError("down")), OSError("down")]
    sizes: list[int] = []

    with ledger.consumer(strategy=[0.01] * 3) as consumer:

        def handler(batch: list[Message], transaction: Any) -> None:
            sizes.append(len(batch))
            for message in batch:
                write(message, transaction)
            if any(message.offset() == 7 for message in batch):
                if failures:
                    raise failures.pop()
                if len(batch) > 1 or not ledger.events:
                    raise ValueError("one of these is poison")
                raise ValueError("poison")
            if ledger.effects.places(ledger.name) == [19] or batch[-1].offset() == 19:
                consumer.stop()

        consumer.run_batches(handler, max_messages=10)
    assert [n for n in range(20) if n != 7] == ledger.effects.of()
    assert [b"7"] == [letter.value() for letter in ledger.kafka.read(ledger.letters)]
    assert [20] == ledger.effects.places(ledger.name)


def test_a_loop_of_ones_own(ledger: Ledger) -> None:
    """Each attempt has its transaction, which ends with its block."""
    ledger.fill(6)
    failing = Failing({2: [OSError("down")], 4: [ValueError("poison")]})
    with ledger.consumer() as consumer:
        for attempt in consumer:
            with attempt as message:
                failing(message, attempt.transaction)
            if message.offset() == 5:
                break
    assert [0, 1, 2, 3, 5] == ledger.effects.of()
    assert [0, 1, 2, 2, 3, 4, 5] == failing.attempts
    assert [6] == ledger.effects.places(ledger.name)
    assert [b"4"] == [letter.value() for letter in ledger.kafka.read(ledger.letters)]


def test_partitions_side_by_side(in_postgres_: Ledger) -> None:
    """Each in a transaction of its own: all effects, and each partition in its order."""
    ledger = in_postgres_
    ledger.fill(50, partitions=4)
    ledger.run(50, scope="partition", concurrency=4)
    assert [[*range(50)]] * 4 == [ledger.effects.of(number) for number in range(4)]


def _keys_side_by_side(ledger: Ledger) -> dict[str, Any]:
    """Twenty messages of each of five keys, of which two fail: one passes, one is poison."""
    ledger.name = ledger.make_topic(2)
    keys = [b"a", b"b", b"c", b"d", b"e"]
    ledger.kafka.produce(
        ledger.name,
        [(number % 2, key, b"%d" % n, []) for n in range(20) for number, key in enumerate(keys)],
    )
    return {"scope": "key", "concurrency": 4, "strategy": [0.05] * 4}


class _OfKeys:
    """Notes what each key's effects are, and fails at some."""

    def __init__(self) -> None:
        self.failures: dict[tuple[bytes, bytes], list[Exception]] = {
            (b"b", b"7"): [OSError("down")] * 3,
            (b"c", b"5"): [ValueError("poison")],
        }

    def __call__(self, message: Message, transaction: Any) -> None:
        key, value = message.key() or b"", message.value() or b""
        place = {"p": key.decode(), "o": int(value)}
        transaction.execute(text("INSERT INTO of_key (name, place) VALUES (:p, :o)"), place)
        if left := self.failures.get((key, value)):
            raise left.pop()

    def check(self, ledger: Ledger) -> None:
        wanted = text("SELECT name, place FROM of_key ORDER BY id")
        found: dict[str, list[int]] = {}
        with ledger.effects.engine.connect() as connection:
            for name, place in connection.execute(wanted):
                found.setdefault(name, []).append(place)
        everything = [*range(20)]
        but_one = [n for n in everything if n != 5]
        assert {each: but_one if each == "c" else everything for each in "abcde"} == found
        assert [b"5"] == [letter.value() for letter in ledger.kafka.read(ledger.letters)]
        assert 0 == ledger.effects.keys()


@pytest.fixture
def of_keys(in_postgres_: Ledger) -> _OfKeys:
    with in_postgres_.effects.engine.begin() as connection:
        connection.execute(
            text("CREATE TABLE of_key (id SERIAL PRIMARY KEY, name TEXT, place INT)")
        )
    return _OfKeys()


def test_keys_side_by_side(in_postgres_: Ledger, of_keys: _OfKeys) -> None:
    """Each in a transaction of its own: all effects, and each key in its order."""
    ledger = in_postgres_
    ledger.run(40, of_keys, **_keys_side_by_side(ledger))
    of_keys.check(ledger)


def test_keys_in_tasks(in_postgres_: Ledger, of_keys: _OfKeys) -> None:
    """The same by `run_async`."""
    ledger = in_postgres_
    options = _keys_side_by_side(ledger)
    url = ledger.effects.url.replace("postgresql:", "postgresql+psycopg:")

    async def main() -> None:
        engine = create_async_engine(url)
        async with ledger.consumer(Inbox(engine), **options) as consumer:

            async def handler(message: Message, transaction: Any) -> None:
                await transaction.run_sync(lambda own: of_keys(message, own))

            with ledger.stopping(consumer, 40):
                await consumer.run_async(handler)
        await engine.dispose()

    asyncio.run(main())
    of_keys.check(ledger)


def test_the_next_owner_continues_each_key(in_postgres_: Ledger, of_keys: _OfKeys) -> None:
    """While one is held: what is done beyond it is known, and what is not."""
    ledger = in_postgres_
    options = _keys_side_by_side(ledger)
    with ledger.consumer(**(options | {"strategy": [600]})) as first:
        thread = threading.Thread(target=first.run, args=(of_keys,))
        thread.start()
        wait_until(lambda: ledger.effects.keys() >= 2, "the keys beyond the one that is held")
        first.stop()
        thread.join()
    assert [8] > ledger.effects.places(ledger.name)[:1]
    ledger.run(40, of_keys, **options, remember_failures=False)
    of_keys.check(ledger)


def test_asyncio(in_postgres_: Ledger) -> None:
    """An asynchronous engine gives the handler its own kind of connection."""
    ledger = in_postgres_
    ledger.fill(10)
    url = ledger.effects.url.replace("postgresql:", "postgresql+psycopg:")
    failures = [OSError("down")]

    async def main() -> None:
        engine = create_async_engine(url)
        async with ledger.consumer(Inbox(engine)) as consumer:

            async def handler(message: Message, transaction: Any) -> None:
                await transaction.run_sync(lambda own: write(message, own))
                if message.offset() == 4 and failures:
                    raise failures.pop()
                if message.offset() == 9:
                    consumer.stop()

            await consumer.run_async(handler)
        await engine.dispose()

    asyncio.run(main())
    assert [*range(10)] == ledger.effects.of()


def _session(effects: Effects) -> Inbox:
    return Inbox(sessionmaker(effects.engine).begin, store=effects.url)


def _psycopg(effects: Effects) -> Inbox:
    return Inbox(lambda: psycopg.connect(effects.url), store=effects.url)


@pytest.mark.parametrize("make", [_session, _psycopg])
def test_transactions_of_other_kinds(
    in_postgres_: Ledger, make: Callable[[Effects], Inbox]
) -> None:
    """A session, or a connection of psycopg: whatever the given function begins."""
    ledger = in_postgres_
    ledger.fill(5)

    def handler(message: Message, transaction: Any) -> None:
        if isinstance(transaction, psycopg.Connection):
            place = message.partition(), message.offset()
            transaction.execute("INSERT INTO effect (part, place) VALUES (%s, %s)", place)
        else:
            write(message, transaction)

    ledger.run(5, handler, inbox=make(ledger.effects))
    assert [*range(5)] == ledger.effects.of()


def _retry_topics(ledger: Ledger) -> RetryTopics:
    retries = RetryTopics(f"{ledger.name}.retry", strategy=["200ms"])
    for name in retries.topics:
        ledger.kafka.create_topic(name, 1, {"message.timestamp.type": "LogAppendTime"})
    return retries


def test_a_retry_line(in_postgres_: Ledger) -> None:
    """It has an inbox too: what left the line has its effect there, once."""
    ledger = in_postgres_
    ledger.fill(4)
    retries = _retry_topics(ledger)
    failing = Failing({1: [OSError("down")]})
    ledger.run(4, failing, strategy=[], on_exhausted=retries)
    assert [0, 2, 3] == ledger.effects.of()
    retried = Failing({0: [OSError("down")]})
    with ledger.consumer(topics=retries) as line:

        def handler(message: Message, transaction: Any) -> None:
            retried(message, transaction)
            line.stop()

        line.run(handler)
    assert [0, 0] == retried.attempts
    assert [0, 2, 3, 0] == ledger.effects.of()  # its offset in the retry topic


def test_both_lines_together(in_postgres_: Ledger) -> None:
    """One handler, and one database: whichever line handles a message, its effect is there once."""
    ledger = in_postgres_
    ledger.fill(4)
    retries = _retry_topics(ledger)
    failing = Failing({1: [OSError("down")]})
    live = ledger.consumer(strategy=[], on_exhausted=retries)

    def retry_line() -> LinearConsumer:
        return ledger.consumer(topics=retries)

    def handler(message: Message, transaction: Any) -> None:
        failing(message, transaction)
        if len(failing.attempts) == 5:
            live.stop()

    run_together(live, retry_line, handler, threads=True)
    assert [0, 0, 2, 3] == sorted(ledger.effects.of())  # one by its offset in the retry topic


def test_members_come_and_go(in_postgres_: Ledger) -> None:
    """While each handler takes its time: no effect is there twice, none out of order."""
    ledger = in_postgres_
    ledger.fill(60, partitions=4)

    def handler(message: Message, transaction: Any) -> None:
        write(message, transaction)
        transaction.execute(text("SELECT pg_sleep(0.005)"))

    def has(least: int) -> bool:
        return sum(len(ledger.effects.of(number)) for number in range(4)) >= least

    def live(member: LinearConsumer) -> None:
        with member:
            member.run(handler)

    members = [ledger.consumer() for _ in range(3)]
    threads = [threading.Thread(target=live, args=(each,)) for each in members]
    for done, thread in enumerate(threads, 1):
        thread.start()
        wait_until(
            partial(has, done * 20),
            "effects",
        )
    members[0].stop()
    wait_until(lambda: ledger.is_done(60), "all is done")
    for member in members:
        member.stop()
    for thread in threads:
        thread.join()
    assert [[*range(60)]] * 4 == [ledger.effects.of(number) for number in range(4)]


def test_who_lost_the_place_writes_nothing(in_postgres_: Ledger) -> None:
    """Another member has claimed it: the message is that one's, and no failure. Here no other reads
    it, so that the partition comes back."""
    ledger = in_postgres_
    ledger.fill(4)

    def go_on() -> None:
        wait_until(lambda: ledger.is_done(4), "the first messages")
        with ledger.effects.engine.begin() as connection:
            connection.execute(text("UPDATE linear_retry_inbox_place SET epoch = epoch + 1"))
        ledger.fill(3)

    elsewhere = threading.Thread(target=go_on)
    elsewhere.start()
    ledger.run(7, strategy=[])
    elsewhere.join()
    assert [*range(7)] == ledger.effects.of()
    assert [] == ledger.kafka.read(ledger.letters)
    assert 1 == Counter(type(event) for event in ledger.events)[events.Lost]
