"""The store's tables are made by migrations, and are those that the code knows."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text

from linear_retry.errors import StoreVersionError
from linear_retry.store.database import Database
from linear_retry.store.listing import error_search
from linear_retry.store.migrations import Migrated, check_version, migrate
from linear_retry.store.schema import metadata
from tests.postgres import Postgres

_HEAD = "0001"


def _is_ours(_: object, name: str | None, kind: str, *__: object) -> bool:
    """All but the index of errors, which a database may refuse, and Alembic's own table."""
    return not (name or "").startswith((error_search.INDEX, "linear_retry_version"))


@pytest.mark.filterwarnings("ignore:.*expression-based index")  # SQLAlchemy cannot read SQLite's
def test_the_tables_are_those_of_the_schema(database: Database) -> None:
    """What the migrations make is what the statements are written for."""
    with database.begin() as connection:
        options = {"compare_type": True, "include_object": _is_ours}
        context = MigrationContext.configure(connection, opts=options)
        assert [] == compare_metadata(context, metadata)


def test_a_store_is_migrated_once(database: Database) -> None:
    """Another run changes nothing, and says so."""
    check_version(database)
    assert Migrated(_HEAD, _HEAD, is_error_search_indexed=True) == migrate(database)


def test_a_store_without_tables_names_the_command(tmp_path: Path, postgres: Postgres) -> None:
    """Whoever forgot the migration reads what to run."""
    for url in (f"sqlite:///{tmp_path}/empty.sqlite3", postgres.new_database("empty")):
        database = Database(url)
        with pytest.raises(StoreVersionError, match="run `linear-retry scheduler migrate`"):
            check_version(database)
        assert Migrated(None, _HEAD, is_error_search_indexed=True) == migrate(database)
        check_version(database)
        database.close()


def test_a_newer_store_is_refused(database: Database) -> None:
    """An old version does not write into tables it does not know."""
    with database.begin() as connection:
        connection.execute(text("UPDATE linear_retry_version SET version_num = '9999'"))
    for refused in (migrate, check_version):
        with pytest.raises(StoreVersionError, match=r"version 9999, newer than .* 0001"):
            refused(database)


def test_an_applications_connection_is_looked_at_itself(database: Database, tmp_path: Path) -> None:
    """A store elsewhere does not help a transaction in a database without one."""
    other = Database(f"sqlite:///{tmp_path}/application.sqlite3")
    with other.begin() as connection, pytest.raises(StoreVersionError, match="no tables"):
        check_version(database, connection)
    other.close()


def test_several_stores_are_migrated_at_once(tmp_path: Path) -> None:
    """By threads of one process, such as two outboxes that start: each has all its tables."""
    stores = [Database(f"sqlite:///{tmp_path}/{number}.sqlite3") for number in range(4)]
    with ThreadPoolExecutor(len(stores)) as threads:
        done = list(threads.map(migrate, stores))
    assert [Migrated(None, _HEAD, is_error_search_indexed=True)] * len(stores) == done
    for store in stores:
        check_version(store)
        store.close()


def test_two_that_start_at_once_both_find_the_tables(postgres: Postgres) -> None:
    """Instances of one deployment may all migrate."""
    databases = [Database(url) for url in [postgres.new_database("at_once")] * 4]
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(migrate, databases))
    for each in databases:
        each.close()
    assert {None, _HEAD} == {each.before for each in done}
    assert 1 == sum(each.before is None for each in done)


def test_a_schema_of_its_own(postgres: Postgres) -> None:
    """The tables stand in the schema that was asked for, and nowhere else."""
    url = postgres.new_database("with_schema")
    database = Database(url, schema="Retry-Later")
    migrate(database)
    check_version(database)
    with database.begin() as connection:
        schemas = connection.execute(
            text(
                "SELECT DISTINCT table_schema FROM information_schema.tables"
                " WHERE table_name LIKE 'linear_retry%'"
            )
        )
        assert ["Retry-Later"] == list(schemas.scalars())
    database.close()
    with closing(Database(url)) as public, pytest.raises(StoreVersionError):
        check_version(public)


def test_a_user_who_may_not_create_extensions_gets_no_index(postgres: Postgres) -> None:
    """The migration succeeds without pg_trgm, and says that the index is missing."""
    url = postgres.new_database("modest")
    owner = Database(url)
    with owner.begin() as connection:
        connection.execute(text("CREATE USER modest"))
        connection.execute(text("CREATE SCHEMA own AUTHORIZATION modest"))
        connection.execute(text("REVOKE CREATE ON DATABASE modest FROM PUBLIC"))
    modest = Database(url.replace("postgres@", "modest@"))
    with owner.begin() as connection:
        connection.execute(text("ALTER USER modest SET search_path = own"))
    assert Migrated(None, _HEAD, is_error_search_indexed=False) == migrate(modest)
    modest.close()
    owner.close()


def test_a_schema_that_an_administrator_has_made(postgres: Postgres) -> None:
    """Its owner needs no right to make schemas: the migration was refused without it."""
    url = postgres.new_database("given_schema")
    owner, guest = Database(url), Database(url.replace("postgres@", "guest@"), schema="given")
    with owner.begin() as connection:
        connection.execute(text("CREATE USER guest"))
        connection.execute(text("CREATE SCHEMA given AUTHORIZATION guest"))
    with pytest.raises(StoreVersionError, match="has no tables of linear_retry in schema given"):
        check_version(guest)
    assert _HEAD == migrate(guest).after
    check_version(guest)
    guest.close()
    owner.close()
