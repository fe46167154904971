"""Measures what messages that wait cost those that are due."""

import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import count

from sqlalchemy import text

from benchmarks.figures import Figure, Result, Target
from benchmarks.report import say
from benchmarks.scale import Scale
from benchmarks.stores import (
    SERVICE,
    add,
    fill,
    new_message,
    postgres_store,
    sqlite_store,
    stored_bytes,
)
from benchmarks.topics import PARTITIONS, VALUE_BYTES
from linear_retry.store import messages
from linear_retry.store.database import Database
from linear_retry.store.listing import statistics as counts
from linear_retry.store.records import NewMessage
from linear_retry.store.sender.progress import Progress, Sent
from linear_retry.store.sender.sender import Sender
from tests.kafka_operations import wait_until
from tests.postgres import Postgres
from tests.real_kafka import RealKafka

_TURNS = 20
_A_TURN = 100
_PER_S = 500
_FEW = 10_000
_FOR_EVER_MS = 2**52
_LIMIT_S = 300.0
_COST = Target("at most", 1.5)
_SNAPSHOT_COST = Target("at most", 5.0)
_numbers = count(1)


def run_at_size(kafka: RealKafka, scale: Scale) -> Result:
    """Ten million messages, a lane of a million, and a snapshot that is ten minutes old."""
    return run(kafka, replace(scale, stored_messages=10_000_000, snapshot_s=600.0))


def run(kafka: RealKafka, scale: Scale) -> Result:
    """Turns of a store in which many messages wait, each beside one of a store with few."""
    with Postgres(shared_buffers="128MB", maintenance_work_mem="256MB") as server:
        figures = [
            *_figures("PostgreSQL", lambda: postgres_store(server), kafka, scale),
            *_figures("SQLite", sqlite_store, kafka, scale),
        ]
    return Result(
        tuple(figures),
        notes=(
            f"many: {scale.stored_messages:,}; few: {_few(scale):,}; a held lane of "
            f"{_held(scale):,}; snapshot: {scale.snapshot_s:g} s old, {_PER_S} sent a second",
            f"a turn: {_A_TURN} messages of {VALUE_BYTES} bytes for {PARTITIONS} partitions are "
            "stored, found to be due, and deleted",
        ),
    )


def _few(scale: Scale) -> int:
    return min(_FEW, scale.stored_messages // 100)


def _held(scale: Scale) -> int:
    return scale.stored_messages // 10


def _figures(
    name: str,
    store: Callable[[], AbstractContextManager[Database]],
    kafka: RealKafka,
    scale: Scale,
) -> Iterator[Figure]:
    topic = f"waiting-{next(_numbers)}"
    kafka.create_topic(topic, PARTITIONS)
    with store() as few, store() as many:
        fill(few, f"{topic}-later", _FOR_EVER_MS, _few(scale), is_empty=True)
        begun_s = time.perf_counter()
        fill(many, f"{topic}-later", _FOR_EVER_MS, scale.stored_messages, is_empty=True)
        say(f"{name}: {scale.stored_messages:,} stored in {time.perf_counter() - begun_s:.0f} s")
        pair = _Pair(topic, few, many, scale.rounds)
        yield Figure(f"{name}: a message that waits", "bytes", (_bytes_each(many, scale),))
        yield Figure(f"{name}: a turn with few", "ms", pair.few_ms())
        yield from pair.compared(f"{name}, many", _COST)
        _hold(many, f"{topic}-held", _held(scale))
        say(f"{name}: {_held(scale):,} more in lanes on hold")
        yield from pair.compared(f"{name}, held lanes", _COST)
        yield Figure(f"{name}: counting what waits", "ms", _counting_ms(many, scale.rounds))
        if not many.is_sqlite:
            with _snapshot(many):
                _send_for(kafka, many, topic, scale.snapshot_s)
                yield from pair.compared(f"{name}, old snapshot", _SNAPSHOT_COST)


class _Pair:
    """A store with few messages that wait, and one with many; they take turns."""

    def __init__(self, topic: str, few: Database, many: Database, rounds: int) -> None:
        self._topic, self._few, self._many, self._rounds = topic, few, many, rounds

    def few_ms(self) -> tuple[float, ...]:
        """The milliseconds of a turn with few."""
        turns = (self._median([self._turn(self._few) for _ in range(_TURNS)]) for _ in self._all)
        return tuple(turn_s * 1000 for turn_s, _ in turns)

    def compared(self, name: str, target: Target) -> tuple[Figure, Figure]:
        """A turn, and the look for due messages in it, with many and with few."""
        ratios = [self._ratios() for _ in self._all]
        turns, looks = zip(*ratios, strict=True)
        return (
            Figure(f"{name}: a turn", "of that with few", turns, target),
            Figure(f"{name}: the look in it", "of that with few", looks, target),
        )

    @property
    def _all(self) -> range:
        return range(self._rounds)

    def _ratios(self) -> tuple[float, float]:
        pairs = [(self._turn(self._few), self._turn(self._many)) for _ in range(_TURNS)]
        few, many = (self._median(turns) for turns in zip(*pairs, strict=True))
        return many[0] / few[0], many[1] / few[1]

    def _median(self, turns: Sequence[tuple[float, float]]) -> tuple[float, float]:
        turns_s, looks_s = zip(*turns, strict=True)
        return statistics.median(turns_s), statistics.median(looks_s)

    def _turn(self, database: Database) -> tuple[float, float]:
        """Seconds of all of it, and of the look."""
        added = _due_now(database, self._topic)
        begun_s = time.perf_counter()
        add(database, added)
        stored_s = time.perf_counter()
        with database.reading() as connection:
            found = messages.due(database, connection, SERVICE, range(8))
        looked_s = time.perf_counter()
        with database.begin() as connection:
            messages.remove_sent(connection, found)
        assert len(added) == len(found)
        return time.perf_counter() - begun_s, looked_s - stored_s


def _due_now(database: Database, topic: str) -> list[NewMessage]:
    with database.reading() as connection:
        now_ms = database.now_ms(connection)
    return [new_message(topic, number, now_ms) for number in range(_A_TURN)]


def _hold(database: Database, topic: str, amount: int) -> None:
    """Fills lanes with messages that are due, and holds them."""
    fill(database, topic, 1, amount)
    hold = "UPDATE linear_retry_lane SET hold_until_ms = :until WHERE destination = :topic"
    with database.begin() as connection:
        connection.execute(text(hold), {"until": _FOR_EVER_MS, "topic": topic})


def _bytes_each(database: Database, scale: Scale) -> float:
    with database.reading() as connection:
        return stored_bytes(database, connection) / scale.stored_messages


def _counting_ms(database: Database, rounds: int) -> tuple[float, ...]:
    return tuple(_count_ms(database) for _ in range(rounds))


def _count_ms(database: Database) -> float:
    begun_s = time.perf_counter()
    with database.reading() as connection:
        counts.waiting(database, connection, SERVICE)
    return (time.perf_counter() - begun_s) * 1000


@contextmanager
def _snapshot(database: Database) -> Iterator[None]:
    """Keeps all rows that are deleted meanwhile, as a backup does."""
    with database.reading() as connection:
        connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        connection.execute(text("SELECT count(*) FROM linear_retry_lane"))
        yield


def _send_for(kafka: RealKafka, database: Database, topic: str, lasting_s: float) -> None:
    """Stores messages that are due at once, at a steady rate, beside a sender."""
    sent: list[int] = []

    def note(event: Progress) -> None:
        if isinstance(event, Sent):
            sent.append(event.count)

    stop = threading.Event()
    sender = Sender(database, kafka.client_settings(), SERVICE, listener=note)
    thread = threading.Thread(target=sender.run, args=(stop,))
    thread.start()
    begun_s, stored = time.perf_counter(), 0
    while (elapsed_s := time.perf_counter() - begun_s) < lasting_s:
        if stored <= elapsed_s * _PER_S:
            add(database, _due_now(database, topic))
            stored += _A_TURN
            if stored % (60 * _PER_S) == 0:
                say(f"snapshot: {elapsed_s:.0f} s old, {sum(sent):,} sent")
        stop.wait(_A_TURN / _PER_S / 10)
    wait_until(lambda: sum(sent) >= stored, "all are sent", within_s=_LIMIT_S)
    stop.set()
    thread.join()
