"""Measures how fast messages are stored, and how fast a dead letter is found by its error."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

from sqlalchemy import text

from benchmarks.figures import Figure, Result, Target
from benchmarks.scale import Scale
from benchmarks.topics import PARTITIONS, VALUE_BYTES
from linear_retry.store import messages
from linear_retry.store.database import Database
from linear_retry.store.listing import dead_letters, error_search
from linear_retry.store.listing.filters import DeadLetterFilter
from linear_retry.store.migrations import migrate
from linear_retry.store.records import NewMessage
from tests.postgres import Postgres
from tests.real_kafka import RealKafka

_AT_A_TIME = 500
_LOOKS = 5
_PAGE = 50
_numbers = count(1)

_HEADERS = tuple((f"retry-header-{number}", b"x" * 20) for number in range(12))
_EVERY, _ONE = "Connection refused", "request 4711 "
# The database makes them: a statement for each would take half an hour.
_FILL = (
    "INSERT INTO linear_retry_dead_letter"
    " (service, destination, key, value, headers, retry_id, reason, error, died_ms) "
    "SELECT 'scheduler', 'orders', 'k', '', '', 'id-' || n, 'exhausted', "
    f"'{_EVERY}: request ' || n || ' to ' || md5(n::text), n FROM generate_series(1, :count) n"
)


def run(_kafka: RealKafka, scale: Scale) -> Result:
    """Both stores take turns; then the search in PostgreSQL."""
    rates: dict[str, list[float]] = {"PostgreSQL": [], "SQLite": []}
    one_ms, every_ms = [], []
    with Postgres() as postgres:
        for _ in range(scale.rounds):
            with _migrated(postgres.new_database(f"storing_{next(_numbers)}")) as database:
                rates["PostgreSQL"].append(_rate(database, scale.sent_messages))
                _fill(database, scale.stored_messages)
                one_ms.append(_search_ms(database, _ONE))
                every_ms.append(_search_ms(database, _EVERY))
            with _in_file() as database:
                rates["SQLite"].append(_rate(database, scale.sent_messages))
    return Result(
        (
            Figure("PostgreSQL", "messages/s", tuple(rates["PostgreSQL"]), _RATE),
            Figure("SQLite", "messages/s", tuple(rates["SQLite"]), _SQLITE_RATE),
            Figure("an error that one has", "ms", tuple(one_ms), _SEARCH),
            Figure("an error that all have", "ms", tuple(every_ms), _SEARCH),
        ),
        notes=(
            f"{scale.sent_messages:,} messages of {VALUE_BYTES} bytes with {len(_HEADERS)} headers,"
            f" {_AT_A_TIME} a transaction; {scale.stored_messages:,} dead letters",
        ),
    )


_RATE = Target("at least", 5_000.0)
_SQLITE_RATE = Target("at least", 3_000.0)
_SEARCH = Target("at most", 200.0)


@contextmanager
def _migrated(url: str) -> Iterator[Database]:
    with closing(Database(url)) as database:
        migrate(database)
        yield database


@contextmanager
def _in_file() -> Iterator[Database]:
    with (
        tempfile.TemporaryDirectory() as directory,
        _migrated(f"sqlite:///{Path(directory) / 'store.sqlite3'}") as database,
    ):
        yield database


def _rate(database: Database, amount: int) -> float:
    """Messages a second."""
    begun_s = time.perf_counter()
    for start in range(0, amount, _AT_A_TIME):
        added = [_message(n) for n in range(start, min(start + _AT_A_TIME, amount))]
        with database.begin() as connection:
            messages.add(database, connection, added)
    return amount / (time.perf_counter() - begun_s)


def _message(number: int) -> NewMessage:
    return NewMessage(
        service="scheduler",
        destination="orders",
        slot=str(number % PARTITIONS),
        due_ms=number,
        key=b"k",
        value=b"x" * VALUE_BYTES,
        headers=_HEADERS,
        retry_id=f"billing/orders/0/{number}/1700000000000",
    )


def _fill(database: Database, amount: int) -> None:
    with database.begin() as connection:
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text(f"DROP INDEX {error_search.INDEX}"))  # faster made at the end
        connection.execute(text(_FILL), {"count": amount})
        error_search.prepare(database, connection)
        connection.execute(text("ANALYZE linear_retry_dead_letter"))


def _search_ms(database: Database, error: str) -> float:
    """The first page of a search, the fastest of some: it is about the index, not the disk."""
    return min(_page_s(database, error) for _ in range(_LOOKS)) * 1000


def _page_s(database: Database, error: str) -> float:
    wanted, begun_s = DeadLetterFilter(error=error), time.perf_counter()
    with database.reading() as connection:
        dead_letters.page(database, connection, wanted, limit=_PAGE)
    return time.perf_counter() - begun_s
