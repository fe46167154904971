"""The store works in a PostgreSQL schema of its own, beside an application's tables."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from sqlalchemy import create_engine, select, text

from linear_retry.store import audit, dead_letters, messages
from linear_retry.store.application import places
from linear_retry.store.application.places import Row
from linear_retry.store.database import Database
from linear_retry.store.listing import dead_letters as listed_dead_letters
from linear_retry.store.listing import messages as listed_messages
from linear_retry.store.listing import statistics
from linear_retry.store.listing.filters import DeadLetterFilter, MessageFilter
from linear_retry.store.migrations import check_version, migrate
from linear_retry.store.schema import dead_letter, is_equal
from linear_retry.store.sender.identity import store_id
from tests.postgres import Postgres
from tests.store.contents import new_dead_letter, new_message

_numbers = count(1)
_ROW = Row("scheduler", "an id", 0)


@pytest.fixture
def url(postgres: Postgres) -> str:
    """The URL of a database of this test's own."""
    return postgres.new_database(f"in_schema_{next(_numbers)}")


@pytest.fixture
def in_schema(url: str) -> Iterator[Database]:
    """A store in a schema whose name needs quotes."""
    database = Database(url, schema="Retry-Later")
    assert migrate(database).is_error_search_indexed
    yield database
    database.close()


def test_every_statement_finds_the_schema(in_schema: Database) -> None:
    """There are no such tables elsewhere in the database."""
    with in_schema.begin() as connection:
        messages.add(in_schema, connection, [new_message(), new_message(slot="1")])
        first, second = messages.due(in_schema, connection, "scheduler", range(8))
        assert 1 == messages.reschedule(in_schema, connection, [first.id])
        dead_letters.add_waiting(in_schema, connection, [second.id], reason="a", error="refused")
        dead_letters.add(in_schema, connection, [new_dead_letter()])
        wanted = DeadLetterFilter(error="refused")
        (dead,) = listed_dead_letters.ids(in_schema, connection, wanted, limit=9)
        assert 1 == dead_letters.forward(in_schema, connection, [dead])
        claimed = places.claim(connection, in_schema, _ROW, "billing.scheduled", "somebody")
        assert claimed is not None
        places.put(connection, in_schema, _ROW, claimed.epoch, 7)
        audit.write(in_schema, connection, actor="a", action="b", count=1, details={})
    with in_schema.reading() as connection:
        assert 2 == len(listed_messages.page(in_schema, connection, MessageFilter(), limit=9))
        assert [2] == [
            each.waiting for each in statistics.waiting(in_schema, connection, "scheduler")
        ]
        assert 7 == places.look(connection, in_schema, _ROW, claimed.epoch)
        assert 1 == len(audit.read(connection, limit=9))


@pytest.mark.parametrize(
    ("column", "wanted", "longer"),
    [("retry_id", "é" * 300, "é" * 301), ("key", b"\xff" * 3_000, b"\xff" * 3_001)],
)
def test_ids_and_keys_are_found_by_their_index(
    database: Database, column: str, wanted: Any, longer: Any
) -> None:
    """Long ones too; those that begin alike are told apart."""
    searched = select(dead_letter.c.id).where(is_equal(dead_letter.c[column], wanted))
    explain = "EXPLAIN QUERY PLAN" if database.is_sqlite else "EXPLAIN"
    with database.begin() as connection:
        letters = [new_dead_letter(**{column: each}) for each in (wanted, longer)]
        dead_letters.add(database, connection, letters)
        assert 1 == len(connection.execute(searched).all())
        if not database.is_sqlite:
            connection.execute(text("SET LOCAL enable_seqscan = off"))
        compiled = searched.compile(connection)
        given = compiled.params if not database.is_sqlite else (*compiled.params.values(),)
        plan = connection.exec_driver_sql(f"{explain} {compiled}", given).all()
    assert f"linear_retry_dead_letter_{column}" in str(plan)


def test_an_applications_own_connection_finds_the_schema(in_schema: Database, url: str) -> None:
    """Its search path and its options know nothing of ours."""
    with in_schema.begin() as connection:
        own_id = store_id(in_schema, connection)
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as application:
        check_version(in_schema, application)
        assert own_id == store_id(in_schema, application)
        messages.add(in_schema, application, [new_message()])
    engine.dispose()
    with in_schema.begin() as connection:
        assert 1 == len(messages.due(in_schema, connection, "scheduler", range(8)))
