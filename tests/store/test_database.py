"""The store's database is reached with care, and its failures are told apart."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import insert, make_url, select, text
from sqlalchemy.exc import IntegrityError

from linear_retry.errors import ConfigurationError, StoreError, StoreVersionError
from linear_retry.store import database as store_database
from linear_retry.store import dead_letters, messages
from linear_retry.store.database import DEFAULT_FILE, Database
from linear_retry.store.migrations import migrate
from linear_retry.store.schema import message, setting
from linear_retry.store.sender import identity
from tests.postgres import Postgres
from tests.store.contents import new_dead_letter, new_message


@contextmanager
def _connected(url: str) -> Iterator[Database]:
    with closing(Database(url)) as database:
        yield database


@pytest.mark.parametrize(
    "url",
    [
        "mysql://user:secret@host/name",
        "mysql://host/name?password=secret",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite+aiosqlite:///file",
        "postgresql+psycopg2://user:secret@host/name",
        "user:secret@host",
        "postgresql://user:secret@host:port/name",
        "",
    ],
)
def test_another_url_is_refused(url: str) -> None:
    """The message has the rule, and never the password."""
    with pytest.raises(ConfigurationError, match="must be postgresql://") as refused:
        Database(url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_postgresql_has_three_names(scheme: str) -> None:
    """Whatever a platform calls it; printed without password and options."""
    with _connected(f"{scheme}://user:secret@host:5/name?sslmode=require") as database:
        assert "postgresql://user:***@host:5/name" == str(database)


def test_sqlite_has_no_schemas() -> None:
    """The setting is refused, and not ignored."""
    with pytest.raises(ConfigurationError, match="SQLite has no schemas"):
        Database(schema="retry")


def test_the_default_is_a_file_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a URL the store is in the working directory."""
    monkeypatch.chdir(tmp_path)
    with closing(Database()) as database, database.begin() as connection:
        database.now_ms(connection)
    assert (tmp_path / "linear-retry.sqlite3").is_file()


def test_a_transaction_is_all_or_nothing(database: Database) -> None:
    """What raises inside takes everything back."""

    def fail() -> None:
        with database.begin() as connection:
            messages.add(database, connection, [new_message()])
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with database.reading() as connection:
        assert [] == connection.execute(select(message)).all()


def test_a_reader_sees_one_moment_and_holds_up_nobody(database: Database) -> None:
    """While it reads others write, and it sees nothing of that."""
    with database.reading() as reader:
        assert [] == reader.execute(select(setting)).all()
        with database.begin() as writer:
            writer.execute(insert(setting).values(name="a", value="b"))
        assert [] == reader.execute(select(setting)).all()
    with database.begin() as writer:  # the connection of the reader: it may write again
        writer.execute(insert(setting).values(name="c", value="d"))
        assert 2 == len(writer.execute(select(setting)).all())


def test_the_clock_is_the_databases(database: Database) -> None:
    """In milliseconds since 1970."""
    with database.begin() as connection:
        assert abs(time.time() * 1000 - database.now_ms(connection)) < 60_000


def test_no_error_has_a_value_in_it(database: Database) -> None:
    """What is stored may be secret: neither parameters nor rows are printed."""
    row = {"lane_id": 10**6, "due_ms": 0, "value": b"secret", "headers": b"", "retry_id": "secret"}
    wrong = insert(message).values(**row, stored_ms=0)  # there is no such lane
    with pytest.raises(IntegrityError) as refused, database.begin() as connection:
        connection.execute(wrong)
    assert "secret" not in str(refused.value)


def test_a_wrong_statement_does_not_pass(database: Database) -> None:
    """It is no `StoreError`: retrying it for ever would hide a bug."""
    with pytest.raises(Exception, match="SELEKT") as raised, database.begin() as connection:
        connection.execute(text("SELEKT 1"))
    assert not isinstance(raised.value, StoreError)


@pytest.mark.parametrize("statement", ["SELECT * FROM no_such", "SELECT no_such FROM {}"])
def test_what_is_missing_is_told(database: Database, statement: str) -> None:
    """A table or a column that is not there: one sentence, and no use in waiting for it."""
    wanted = text(statement.format(setting.name))
    with (
        pytest.raises(StoreVersionError, match=r"no_such.*migrate") as raised,
        database.begin() as c,
    ):
        c.execute(wanted)
    assert "\n" not in str(raised.value)


def test_a_user_without_rights_is_told(postgres_url: str) -> None:
    """In one line: somebody may grant them, while what needs them waits."""
    with _connected(postgres_url) as database, database.begin() as connection:
        connection.exec_driver_sql("CREATE ROLE poor LOGIN")
    poor = make_url(postgres_url).set(username="poor")
    with (
        _connected(poor.render_as_string()) as database,
        pytest.raises(StoreError, match="permission denied for table") as refused,
        database.begin() as connection,
    ):
        connection.execute(select(message))
    assert "\n" not in str(refused.value)


def test_sqlite_keeps_what_it_has_committed(sqlite_url: str) -> None:
    """Synced at each commit, with readers beside the writer, and foreign keys checked."""
    with _connected(sqlite_url) as database, database.begin() as connection:
        found = [
            connection.execute(text(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        ]
    assert ["wal", 2, 1] == found


def test_a_file_that_cannot_be_opened_is_a_store_error(tmp_path: Path) -> None:
    """A disk that is not mounted yet may be there later."""
    with (
        _connected(f"sqlite:///{tmp_path}/missing/file") as database,
        pytest.raises(StoreError, match="unable to open database file"),
        database.begin(),
    ):
        pass


def _add(database: Database, retry_id: str) -> None:
    with database.begin() as connection:
        messages.add(database, connection, [new_message(retry_id=retry_id)])


def _ids(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as own:
        rows = own.execute("SELECT retry_id FROM linear_retry_message ORDER BY id")
        return [row[0] for row in rows]


def test_a_file_that_is_deleted_while_it_is_open_is_noticed(sqlite_url: str) -> None:
    """SQLite goes on with the old file, which has no name: 1,076 messages counted as stored."""
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    with _connected(sqlite_url) as database:
        _add(database, "1")
        path.rename(path.with_name("elsewhere"))
        for _ in range(2):
            with pytest.raises(StoreError, match="deleted or replaced"):
                _add(database, "2")
            with pytest.raises(StoreError, match="deleted or replaced"), database.reading():
                pass
        assert not path.exists()
        path.with_name("elsewhere").rename(path)
        _add(database, "3")
    assert ["1", "3"] == _ids(path)


def test_a_file_that_is_replaced_is_taken_at_the_next_attempt(sqlite_url: str) -> None:
    """As a database of PostgreSQL that is renamed into the place of another."""
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    with _connected(sqlite_url) as database:
        copy = path.with_name("copy.sqlite3")
        with closing(sqlite3.connect(path)) as own:
            own.execute(f"VACUUM INTO '{copy}'")
        _add(database, "1")
        for each in ("", "-wal", "-shm"):
            path.with_name(path.name + each).unlink(missing_ok=True)
        copy.rename(path)
        with pytest.raises(StoreError, match="deleted or replaced"):
            _add(database, "2")
        _add(database, "3")
        assert ["3"] == _ids(path)


def test_what_is_committed_to_a_file_that_has_gone_does_not_count(sqlite_url: str) -> None:
    """It was there when the transaction began."""
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    with _connected(sqlite_url) as database:

        def add() -> None:
            with database.begin() as connection:
                messages.add(database, connection, [new_message()])
                path.unlink()

        with pytest.raises(StoreError, match="deleted or replaced"):
            add()


def test_a_log_that_the_last_connection_has_removed_is_no_loss(sqlite_url: str) -> None:
    """SQLite makes another with the next one, which counted as replaced: an error now and then."""
    database = Database(sqlite_url)
    log = Path(f"{make_url(sqlite_url).database}-wal")
    for value in ("before", "after"):
        with database.begin() as connection:
            identity.write(database, connection, "setting", value)
        assert log.exists()
        database.close()
        assert not log.exists()
        log.with_name("takes its inode").touch()
    database.close()


def test_a_log_that_is_deleted_while_it_is_open_loses_nothing(sqlite_url: str) -> None:
    """Somebody tidies up: SQLite would write on into a file that others do not see."""
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    with _connected(sqlite_url) as database:
        _add(database, "1")
        path.with_name(f"{path.name}-wal").unlink()
        with pytest.raises(StoreError, match="-wal, was deleted"):
            _add(database, "2")
        _add(database, "3")
        assert ["1", "3"] == _ids(path)


def test_the_file_is_the_same_in_another_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that becomes a daemon changes it: neither is a file made there, nor missed here."""
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    with closing(Database()) as database:
        monkeypatch.chdir(tmp_path / "other")
        migrate(database)
        _add(database, "1")
    assert (["1"], []) == (_ids(tmp_path / DEFAULT_FILE), [*(tmp_path / "other").iterdir()])


def test_a_server_that_hangs_is_not_waited_for_for_ever(postgres_url: str) -> None:
    """Statements have a limit, whatever the server's own is; rows are read as committed."""
    with _connected(postgres_url) as database, database.begin() as connection:
        shown = [
            connection.execute(text(f"SHOW {name}")).scalar()
            for name in ("statement_timeout", "transaction_isolation", "application_name")
        ]
    assert ["1min", "read committed", "linear_retry"] == shown


def test_an_exhausted_pool_is_a_store_error(postgres_url: str) -> None:
    """Whoever waits too long for a connection gets an error that passes."""
    with _connected(postgres_url) as database, ExitStack() as held:
        for _ in range(15):
            held.enter_context(database.begin())
        with pytest.raises(StoreError, match="QueuePool limit"), database.begin():
            pass


def test_a_server_that_goes_down_comes_back() -> None:
    """`StoreError` while it is away, in the middle of a transaction too; then it works again."""
    with Postgres() as server, _connected(server.url) as database:

        def outage() -> None:
            with database.begin() as connection:
                server.stop()
                database.now_ms(connection)

        with pytest.raises(StoreError, match=r"store postgresql://postgres@127\.0\.0\.1"):
            outage()
        with pytest.raises(StoreError, match="Connection refused"), database.begin():
            pass
        server.start()
        with database.begin() as connection:
            assert database.now_ms(connection) > 0


def test_a_machine_without_a_directory_for_temporary_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A container that is read-only: its instance has no file there, and sends all the same."""

    def gettempdir() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(store_database, "gettempdir", gettempdir)
    with _connected("postgresql://host/name") as database:
        assert database.local_directory is None


@pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
def test_no_transaction_can_be_suspended_within_a_pipeline(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There PostgreSQL counts no time as idle: its locks would be held until it is woken up."""

    def executemany(*_: object, **__: object) -> None:
        pytest.fail("psycopg would send these in a pipeline")

    monkeypatch.setattr(psycopg.Cursor, "executemany", executemany)
    for due_ms in (2_000, 1_000):  # new lanes, then lanes to lower
        new = [new_message(slot=str(each % 3), due_ms=due_ms) for each in range(250)]
        with database.begin() as connection:
            messages.add(database, connection, new)
            dead_letters.add(database, connection, [new_dead_letter()] * 2)
    with database.begin() as connection:
        waiting = messages.waiting(connection, "scheduler", limit=1_000)
    assert [1_000] * 250 == [each.due_ms for each in waiting[250:]]
    assert [str(each % 3) for each in range(250)] * 2 == [each.slot for each in waiting]
