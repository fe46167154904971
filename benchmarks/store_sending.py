"""Measures how fast and how late the store's messages are sent, and what those that wait cost."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from sqlalchemy import text

from benchmarks.figures import Figure, Result, Target, percentile
from benchmarks.scale import Scale
from benchmarks.stores import postgres_store, sqlite_store
from benchmarks.topics import PARTITIONS, VALUE_BYTES
from linear_retry.store import messages
from linear_retry.store.database import Database
from linear_retry.store.messages import Limits
from linear_retry.store.records import NewMessage, Service
from linear_retry.store.sender.progress import Progress, Sent
from linear_retry.store.sender.sender import Sender
from tests.kafka_operations import wait_until
from tests.postgres import Postgres
from tests.real_kafka import RealKafka

_SERVICE: Service = "scheduler"
_PER_S = 500
_LOOKS = 20
_HEAD = Limits(rows=100)
_FOR_EVER_MS = 2**52
_AT_A_TIME = 1_000
_LIMIT_S = 600.0
_numbers = count(1)

_COLUMNS = "lane_id, due_ms, key, value, headers, retry_id, stored_ms"
# A million of them, one statement each: the database makes them itself.
_FILL = {
    True: f"WITH RECURSIVE one(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM one WHERE n < :count) "
    f"INSERT INTO linear_retry_message ({_COLUMNS}) "
    f"SELECT :lane, :due_ms + n, x'6b', zeroblob({VALUE_BYTES}), x'', 'id-' || n, 0 FROM one",
    False: f"INSERT INTO linear_retry_message ({_COLUMNS}) "
    f"SELECT :lane, :due_ms + n, 'k', convert_to(repeat('x', {VALUE_BYTES}), 'UTF8'), '', "
    "'id-' || n, 0 FROM generate_series(1, :count) n",
}


def run(kafka: RealKafka, scale: Scale) -> Result:
    """Both stores take turns; then PostgreSQL with more and more messages that wait."""
    rates: dict[str, list[float]] = {"PostgreSQL": [], "SQLite": []}
    late_ms, waiting, held, old = [], [], [], []
    with Postgres() as postgres:
        for _ in range(scale.rounds):
            for name, store in {
                "PostgreSQL": postgres_store(postgres),
                "SQLite": sqlite_store(),
            }.items():
                with store as database:
                    rates[name].append(_Line(kafka, database).rate(scale.sent_messages))
            with postgres_store(postgres) as database:
                late_ms.append(_Line(kafka, database).late_ms(scale.lateness_s))
            with postgres_store(postgres) as database:
                costs = _costs(_Line(kafka, database), scale.stored_messages)
            waiting.append(costs.waiting / costs.few)
            held.append(costs.held / costs.few)
            old.append(costs.old_snapshot / costs.few)
    return Result(
        (
            Figure("PostgreSQL", "messages/s", tuple(rates["PostgreSQL"]), _RATE),
            Figure("SQLite", "messages/s", tuple(rates["SQLite"]), _SQLITE_RATE),
            Figure(f"late at {_PER_S}/s, p99", "ms", tuple(late_ms), _LATE),
            Figure("a look for due ones, many wait", "of that with few", tuple(waiting), _WAIT),
            Figure("and a lane with many is held", "of that with few", tuple(held), _WAIT),
            Figure("a tenth sent, old snapshot open", "of that with few", tuple(old), _SNAPSHOT),
        ),
        notes=(
            f"many: {scale.stored_messages:,}; few: {_few(scale.stored_messages):,}; values of "
            f"{VALUE_BYTES} bytes for {PARTITIONS} partitions",
        ),
    )


_RATE = Target("at least", 5_000.0)
_SQLITE_RATE = Target("at least", 3_000.0)
_LATE = Target("at most", 250.0)
_WAIT = Target("at most", 1.5)
_SNAPSHOT = Target("at most", 5.0)


@dataclass(frozen=True, slots=True)
class _Costs:
    """Seconds of one look for due messages."""

    few: float
    waiting: float
    held: float
    old_snapshot: float


def _few(many: int) -> int:
    return many // 100


def _costs(line: "_Line", many: int) -> _Costs:
    later_ms, held_topic = line.now_ms() + _FOR_EVER_MS, f"{line.topic}-held"
    line.fill(later_ms, _few(many))
    line.fill(1, _LOOKS * PARTITIONS)
    few = line.look_s()
    line.fill(later_ms, many)
    waiting = line.look_s()
    line.fill(1, many, held_topic, held=True)
    held = line.look_s()
    line.fill(1_000, many // 10)
    with line.database.reading() as old:
        old.execute(text("SELECT count(*) FROM linear_retry_lane"))
        line.send_all(many // 10)
        line.fill(_AT_A_TIME * many, _LOOKS * PARTITIONS)
        return _Costs(few, waiting, held, line.look_s())


class _Line:
    """A topic and its messages in the store."""

    def __init__(self, kafka: RealKafka, database: Database) -> None:
        self._kafka, self.database = kafka, database
        self.topic = f"sending-{next(_numbers)}"
        kafka.create_topic(self.topic, PARTITIONS)

    def rate(self, amount: int) -> float:
        """Messages a second, from the first batch to the last; all are due."""
        self.fill(1, amount)
        return self.send_all(amount)

    def send_all(self, amount: int) -> float:
        """Messages a second, without the start of the producers."""
        sender = Sender(self.database, self._kafka.client_settings(), _SERVICE, listener=_ignore)
        first, begun_s = _until_some(sender.step), time.perf_counter()
        sent = 0
        while sent < amount - first and (some := sender.step()):
            sent += some
        elapsed_s = time.perf_counter() - begun_s
        sender.close()
        return max(sent, 1) / elapsed_s

    def late_ms(self, lasting_s: float) -> float:
        """From the due time of 99 % to the end of their batch."""
        late: list[int] = []

        def note(event: Progress) -> None:
            if isinstance(event, Sent):
                late.extend([event.latest_ms] * event.count)

        sender = Sender(self.database, self._kafka.client_settings(), _SERVICE, listener=note)
        self.fill(1, PARTITIONS)  # one for each producer: their start is no part of it
        _until_some(sender.step)
        late.clear()
        stop = threading.Event()
        amount = round(_PER_S * lasting_s)
        first_ms = self.now_ms() + 2_000 + amount // 2  # all are stored by then
        for start in range(0, amount, _AT_A_TIME):
            places = range(start, min(start + _AT_A_TIME, amount))
            self._add([self._message(n, first_ms + n * 1_000 // _PER_S) for n in places])
        thread = threading.Thread(target=sender.run, args=(stop,))
        thread.start()
        wait_until(lambda: len(late) >= amount, "all are sent", _LIMIT_S)
        stop.set()
        thread.join()
        return float(percentile(late, 99))

    def fill(
        self, due_ms: int, amount: int, topic: str | None = None, *, held: bool = False
    ) -> None:
        """Stores so many, due one after another, for all partitions of the topic alike."""
        to = topic or self.topic
        self._add([self._message(n, due_ms, to) for n in range(PARTITIONS)])
        lanes = "SELECT id FROM linear_retry_lane WHERE destination = :topic"
        hold = "UPDATE linear_retry_lane SET hold_until_ms = :until WHERE destination = :topic"
        with self.database.begin() as connection:
            for lane in connection.scalars(text(lanes), {"topic": to}).all():
                row = {"lane": lane, "due_ms": due_ms, "count": amount // PARTITIONS}
                connection.execute(text(_FILL[self.database.is_sqlite]), row)
            if held:
                connection.execute(text(hold), {"until": _FOR_EVER_MS, "topic": to})

    def look_s(self) -> float:
        """The shortest of some looks: what the machine does beside it only lengthens one."""
        return min(self._look_s() for _ in range(_LOOKS))

    def now_ms(self) -> int:
        with self.database.reading() as connection:
            return self.database.now_ms(connection)

    def _look_s(self) -> float:
        begun_s = time.perf_counter()
        with self.database.reading() as connection:
            found = messages.due(self.database, connection, _SERVICE, range(8), _HEAD)
        assert found
        return time.perf_counter() - begun_s

    def _message(self, number: int, due_ms: int, topic: str | None = None) -> NewMessage:
        return NewMessage(
            service=_SERVICE,
            destination=topic or self.topic,
            slot=str(number % PARTITIONS),
            due_ms=due_ms,
            key=b"k",
            value=b"x" * VALUE_BYTES,
            retry_id=f"id-{number}",
        )

    def _add(self, added: list[NewMessage]) -> None:
        with self.database.begin() as connection:
            messages.add(self.database, connection, added)


def _until_some(step: Callable[[], int]) -> int:
    return wait_until(step, "the first are sent", _LIMIT_S)


def _ignore(_: object) -> None:
    """Looks at no event."""
