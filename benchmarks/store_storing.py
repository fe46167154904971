"""Measures how fast messages are stored, and how fast a dead letter is found by its error."""

import time
from collections.abc import Iterator

from sqlalchemy import text

from benchmarks.figures import Figure, Result, Target
from benchmarks.report import say
from benchmarks.scale import Scale
from benchmarks.stores import add, postgres_store, sqlite_store, stored_bytes
from benchmarks.topics import PARTITIONS, VALUE_BYTES
from linear_retry.store import header_bytes
from linear_retry.store.database import Database
from linear_retry.store.listing import dead_letters, error_search
from linear_retry.store.listing.filters import DeadLetterFilter
from linear_retry.store.records import NewMessage
from tests.postgres import Postgres
from tests.real_kafka import RealKafka

_AT_A_TIME = 500
_LOOKS = 5
_PAGE = 50

_HEADERS = tuple((f"retry-header-{number}", b"x" * 20) for number in range(12))
_CONTENT_BYTES = VALUE_BYTES + 1 + len(header_bytes.write(_HEADERS))
_RATE = Target("at least", 5_000.0)
_SQLITE_RATE = Target("at least", 3_000.0)
_SEARCH = Target("at most", 200.0)

_SEARCHED = {
    "one has": "request 4711 ",
    "all have": "Connection refused",
    "nobody has": "Connection lost",
}
# The database makes them: a statement for each would take half an hour.
_FILL = (
    "INSERT INTO linear_retry_dead_letter"
    " (service, destination, key, value, headers, retry_id, reason, error, died_ms) "
    "SELECT 'scheduler', 'orders', '', '', '', 'id-' || n, 'exhausted', "
    "'Connection refused: request ' || n || ' to ' || "
)
_FILL_POSTGRESQL = f"{_FILL} md5(n::text), n FROM generate_series(1, :count) n"
_FILL_SQLITE = (
    "WITH RECURSIVE one(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM one WHERE n < :count) "
    f"{_FILL} hex(randomblob(16)), n FROM one"
)


def run(_kafka: RealKafka, scale: Scale) -> Result:
    """Both stores take turns; then the search in each."""
    rates: dict[str, list[float]] = {"PostgreSQL": [], "SQLite": []}
    sizes: dict[str, list[float]] = {"PostgreSQL": [], "SQLite": []}
    with Postgres(shared_buffers="128MB", maintenance_work_mem="256MB") as server:
        for each in range(scale.rounds):
            say(f"round {each + 1} of {scale.rounds}")
            for name, store in {
                "PostgreSQL": postgres_store(server),
                "SQLite": sqlite_store(),
            }.items():
                with store as database:
                    rates[name].append(_rate(database, scale.sent_messages))
                    sizes[name].append(_bytes_beside(database, scale.sent_messages))
        figures = [
            Figure("PostgreSQL", "messages/s", tuple(rates["PostgreSQL"]), _RATE),
            Figure("SQLite", "messages/s", tuple(rates["SQLite"]), _SQLITE_RATE),
            *(
                Figure(f"{name}: beside a message's content", "bytes", tuple(each))
                for name, each in sizes.items()
            ),
        ]
        with postgres_store(server) as database:
            figures += _searches("PostgreSQL", database, scale)
        with sqlite_store() as database:
            figures += _searches("SQLite", database, scale)
    return Result(
        tuple(figures),
        notes=(
            f"{scale.sent_messages:,} messages of {VALUE_BYTES} bytes with {len(_HEADERS)} headers,"
            f" {_CONTENT_BYTES} bytes in all, {_AT_A_TIME} a transaction; "
            f"{scale.stored_messages:,} dead letters, pages of {_PAGE}",
        ),
    )


def _rate(database: Database, amount: int) -> float:
    """Messages a second."""
    begun_s = time.perf_counter()
    for start in range(0, amount, _AT_A_TIME):
        add(database, [_message(n) for n in range(start, min(start + _AT_A_TIME, amount))])
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


def _bytes_beside(database: Database, amount: int) -> float:
    with database.reading() as connection:
        return stored_bytes(database, connection) / amount - _CONTENT_BYTES


def _searches(name: str, database: Database, scale: Scale) -> Iterator[Figure]:
    begun_s = time.perf_counter()
    _fill(database, scale.stored_messages)
    say(f"{name}: {scale.stored_messages:,} letters in {time.perf_counter() - begun_s:.0f} s")
    for who, error in _SEARCHED.items():
        found_ms = tuple(_search_ms(database, error) for _ in range(scale.rounds))
        yield Figure(f"{name}: an error that {who}", "ms", found_ms, _SEARCH)


def _fill(database: Database, amount: int) -> None:
    with database.begin() as connection:
        if database.is_sqlite:
            connection.execute(text(_FILL_SQLITE), {"count": amount})
            return
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text(f"DROP INDEX {error_search.INDEX}"))  # faster made at the end
        connection.execute(text(_FILL_POSTGRESQL), {"count": amount})
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
