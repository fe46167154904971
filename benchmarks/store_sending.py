"""Measures how fast and how late the store's messages are sent."""

import threading
import time
from collections.abc import Callable
from itertools import count

from benchmarks.figures import Figure, Result, Target, percentile
from benchmarks.report import say
from benchmarks.scale import Scale
from benchmarks.stores import SERVICE, add, fill, new_message, postgres_store, sqlite_store
from benchmarks.topics import PARTITIONS, VALUE_BYTES
from linear_retry.store.database import Database
from linear_retry.store.sender.progress import Progress, Sent
from linear_retry.store.sender.sender import Sender
from tests.kafka_operations import wait_until
from tests.postgres import Postgres
from tests.real_kafka import RealKafka

_PER_S = 500
_AT_A_TIME = 1_000
_LIMIT_S = 600.0
_numbers = count(1)

_RATE = Target("at least", 5_000.0)
_SQLITE_RATE = Target("at least", 3_000.0)
_LATE = Target("at most", 250.0)


def run(kafka: RealKafka, scale: Scale) -> Result:
    """Both stores take turns."""
    rates: dict[str, list[float]] = {"PostgreSQL": [], "SQLite": []}
    late_ms: list[float] = []
    with Postgres() as postgres:
        for each in range(scale.rounds):
            say(f"round {each + 1} of {scale.rounds}")
            for name, store in {
                "PostgreSQL": postgres_store(postgres),
                "SQLite": sqlite_store(),
            }.items():
                with store as database:
                    rates[name].append(_Line(kafka, database).rate(scale.sent_messages))
            with postgres_store(postgres) as database:
                late_ms.append(_Line(kafka, database).late_ms(scale.lateness_s))
    return Result(
        (
            Figure("PostgreSQL", "messages/s", tuple(rates["PostgreSQL"]), _RATE),
            Figure("SQLite", "messages/s", tuple(rates["SQLite"]), _SQLITE_RATE),
            Figure(f"late at {_PER_S}/s, p99", "ms", tuple(late_ms), _LATE),
        ),
        notes=(f"values of {VALUE_BYTES} bytes for {PARTITIONS} partitions",),
    )


class _Line:
    """A topic and its messages in the store."""

    def __init__(self, kafka: RealKafka, database: Database) -> None:
        self._kafka, self._database = kafka, database
        self._topic = f"sending-{next(_numbers)}"
        kafka.create_topic(self._topic, PARTITIONS)

    def rate(self, amount: int) -> float:
        """Messages a second, from the first batch to the last, without the producers' start."""
        fill(self._database, self._topic, 1, amount)
        sender = self._sender(_ignore)
        first, begun_s = _until_some(sender.step), time.perf_counter()
        sent = 0
        while sent < amount - first:
            sent += sender.step()
        elapsed_s = time.perf_counter() - begun_s
        sender.close()
        return max(sent, 1) / elapsed_s

    def late_ms(self, lasting_s: float) -> float:
        """From the due time of 99 % to the end of their batch; the sender has just started."""
        late: list[int] = []

        def note(event: Progress) -> None:
            if isinstance(event, Sent):
                late.extend([event.latest_ms] * event.count)

        sender = self._sender(note)
        stop = threading.Event()
        amount = round(_PER_S * lasting_s)
        self._store(amount)
        thread = threading.Thread(target=sender.run, args=(stop,))
        thread.start()
        wait_until(lambda: len(late) >= amount, "all are sent", within_s=_LIMIT_S)
        stop.set()
        thread.join()
        return float(percentile(late, 99))

    def _sender(self, listener: Callable[[Progress], object]) -> Sender:
        return Sender(self._database, self._kafka.client_settings(), SERVICE, listener=listener)

    def _store(self, amount: int) -> None:
        """Stores messages that become due at a steady rate, once all are stored."""
        with self._database.reading() as connection:
            first_ms = self._database.now_ms(connection) + 2_000 + amount // 2
        for start in range(0, amount, _AT_A_TIME):
            numbers = range(start, min(start + _AT_A_TIME, amount))
            due = [(number, first_ms + number * 1_000 // _PER_S) for number in numbers]
            added = [new_message(self._topic, number, due_ms) for number, due_ms in due]
            add(self._database, added)


def _until_some(step: Callable[[], int]) -> int:
    return wait_until(step, "the first are sent", within_s=_LIMIT_S)


def _ignore(_: object) -> None:
    """Looks at no event."""
