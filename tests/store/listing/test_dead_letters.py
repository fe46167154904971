"""Dead letters are listed and searched page by page, without their values."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import bindparam, event, text, update

from linear_retry.store import dead_letters
from linear_retry.store.database import Database
from linear_retry.store.listing import error_search
from linear_retry.store.listing.dead_letters import ListedDeadLetter, count, ids, page
from linear_retry.store.listing.filters import DeadLetterFilter, Place
from linear_retry.store.records import NewDeadLetter
from linear_retry.store.schema import dead_letter
from tests.store.contents import new_dead_letter

_ERRORS = ["", "a", "ab%_\\", 'Timeout: "quoted" text', "timeout AND more", "öffnen\U0001f600 x"]
_PARTS = ["", "a", "%_", "\\", 'ut: "quo', "TIMEOUT", "text", "nothing", "ffnen", "\0", "* OR a"]
_LETTERS = [
    new_dead_letter(
        destination=f"topic-{number % 3}",
        retry_id=f"id {number}",
        key=None if number % 4 == 0 else b"\x00" * (number % 4),
        group_id=None if number % 5 == 0 else f"group {number % 5}",
        service="outbox" if number % 7 == 0 else "scheduler",
        reason=f"reason {number % 2}",
        error=_ERRORS[number % len(_ERRORS)],
    )
    for number in range(60)
]
_FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "service": st.sampled_from(["scheduler", "outbox"]),
        "destination": st.sampled_from(["topic-0", "topic-9"]),
        "group_id": st.sampled_from(["group 1", "none"]),
        "retry_id": st.sampled_from(["id 4", "id 5", "none"]),
        "key": st.sampled_from([b"\x00", b""]),
        "reason": st.sampled_from(["reason 1", "' OR 1=1 --"]),
        "since_ms": st.integers(0, 10),
        "until_ms": st.integers(0, 10),
        "error": st.sampled_from(_PARTS),
    },
)


_DROPPING = {
    True: (
        f"DROP TRIGGER {error_search.INDEX}_added",
        f"DROP TRIGGER {error_search.INDEX}_removed",
        f"DROP TABLE {error_search.INDEX}",
    ),
    False: (f"DROP INDEX {error_search.INDEX}",),
}


def _died_ms(number: int) -> int:
    return number * 7 % 10


@pytest.fixture(params=["index", "no index"])
def filled(request: pytest.FixtureRequest, database: Database) -> Database:
    """A store with `_LETTERS`; with the index of errors, and without."""
    with database.begin() as connection:
        dead_letters.add(database, connection, _LETTERS)
        if request.param == "no index":
            for statement in _DROPPING[database.is_sqlite]:
                connection.execute(text(statement))
        first = min(ids(database, connection, DeadLetterFilter(), limit=100))
        change = update(dead_letter).where(dead_letter.c.id == bindparam("letter"))
        connection.execute(
            change.values(died_ms=bindparam("time")),
            [{"letter": first + n, "time": _died_ms(n)} for n in range(len(_LETTERS))],
        )
    return database


def _is_wanted(number: int, wanted: DeadLetterFilter) -> bool:
    each = _LETTERS[number]
    equal = ("service", "destination", "group_id", "retry_id", "key", "reason")
    return (
        all(getattr(wanted, name) in (None, getattr(each, name)) for name in equal)
        and (wanted.since_ms is None or _died_ms(number) >= wanted.since_ms)
        and (wanted.until_ms is None or _died_ms(number) < wanted.until_ms)
        and (wanted.error is None or wanted.error.lower() in each.error.lower())
    )


def _pages(database: Database, wanted: DeadLetterFilter, limit: int) -> Iterator[ListedDeadLetter]:
    after = None
    while True:
        with database.reading() as connection:
            rows = page(database, connection, wanted, limit=limit, after=after)
        yield from rows
        if len(rows) < limit:
            return
        after = rows[-1].place


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given_filter=_FILTERS, limit=st.integers(1, 70))
def test_pages_together_are_what_is_wanted(
    filled: Database, given_filter: dict[str, object], limit: int
) -> None:
    """Each dead letter once, the latest first, whatever the pages' size and the text searched."""
    wanted = DeadLetterFilter(**given_filter)  # type: ignore[arg-type]
    expected = [n for n in range(len(_LETTERS)) if _is_wanted(n, wanted)]
    with filled.reading() as connection:
        is_walked = error_search.is_walked(filled, connection, wanted.error or "")
    found = list(_pages(filled, wanted, limit))
    numbers = [int(each.retry_id.removeprefix("id ")) for each in found]
    # SQLite's index gives them in the order in which they were stored.
    assert sorted(expected, key=lambda n: (is_walked or _died_ms(n), n), reverse=True) == numbers
    with filled.reading() as connection:
        assert len(expected) == count(filled, connection, wanted)
        assert min(limit, len(expected)) == count(filled, connection, wanted, limit=limit)
        assert {each.id for each in found} == set(ids(filled, connection, wanted, limit=100))


def test_a_frequent_error_is_searched_no_further_than_the_page(sqlite_url: str) -> None:
    """SQLite walks its index from the latest, and sorts and collects nothing."""
    database = Database(sqlite_url)
    statements: list[tuple[str, Any]] = []
    wanted = DeadLetterFilter(error="timeout", service="scheduler")
    with database.reading() as connection:

        @event.listens_for(connection, "before_cursor_execute")
        def keep(_: Any, __: Any, statement: str, given: Any, *___: Any) -> None:
            statements.append((statement, given))

        page(database, connection, wanted, limit=9, after=Place(7, 7))
        statement, given = statements[-1]
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", given).all()
    database.close()
    first, second = [row.detail for row in rows]
    assert first.startswith(f"SCAN {error_search.INDEX} VIRTUAL TABLE INDEX")
    assert second.endswith("USING INTEGER PRIMARY KEY (rowid=?)")


def test_the_index_forgets_what_was_removed(database: Database) -> None:
    """And knows what was there before it was made."""
    with database.begin() as connection:
        dead_letters.add(database, connection, _LETTERS)
        wanted = DeadLetterFilter(error="timeout")
        before = ids(database, connection, wanted, limit=100)
        for statement in _DROPPING[database.is_sqlite]:
            connection.execute(text(statement))
        assert error_search.prepare(database, connection)
        assert before == ids(database, connection, wanted, limit=100)
        dead_letters.remove(connection, before[1:])
        assert before[:1] == ids(database, connection, wanted, limit=100)


def test_a_row_says_what_died(database: Database) -> None:
    """All but value and headers; of the value, its length."""
    added: NewDeadLetter = new_dead_letter(value=bytes(100_000), partition=None)
    with database.begin() as connection:
        dead_letters.add(database, connection, [added])
        (row,) = page(database, connection, DeadLetterFilter(), limit=9)
    same = ("service", "destination", "partition", "key", "reason", "error", "retry_id", "origin")
    assert [getattr(added, name) for name in same] == [getattr(row, name) for name in same]
    assert 100_000 == row.value_bytes
