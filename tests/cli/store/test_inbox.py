"""The commands on an inbox, over SQLite and PostgreSQL."""

from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.cli.output.exit_codes import UNAVAILABLE, USAGE_ERROR
from linear_retry.store import audit
from linear_retry.store.application import places
from linear_retry.store.application.places import Row
from linear_retry.store.database import Database
from tests.cli.result import Result

_ROW = Row("ledger", "an-id", 3)
_WHERE = ("--group", "ledger", "--topic", "payments", "--partition", "3")


@pytest.fixture
def run(store_url: str) -> Callable[..., Result]:
    """A command on the store of the test."""

    def call(*arguments: str) -> Result:
        environment = {"LINEAR_RETRY_STORE": store_url}
        done = CliRunner(env=environment).invoke(app, ["inbox", *arguments])
        return Result(done.exit_code, done.stdout, done.stderr)

    return call


@pytest.fixture
def epoch(database: Database) -> int:
    """That of a member which has handled all before offset 7."""
    with database.begin() as connection:
        claimed = places.claim(connection, database, _ROW, "payments", "member-1")
        assert claimed is not None
        assert places.take(connection, database, _ROW, claimed.epoch, -1, 6, 7)
        for number in (1, 2):
            places.note_done(connection, database, "ledger", f"id-{number}", number * 1_000)
    return claimed.epoch


def _actions(database: Database) -> list[str]:
    with database.reading() as connection:
        return [change.action for change in audit.read(connection, limit=9)]


@pytest.mark.usefixtures("epoch")
def test_it_lists_places(run: Callable[..., Result]) -> None:
    """For people and for machines; and how many messages that came back are known."""
    listed = run("list")
    assert ["ledger", "payments", "3", "7", "member-1"] == listed.rows[1]
    assert "2 messages" in listed.err
    (place,) = run("list", "--json").objects
    assert ("payments", 3, 7) == (place["topic"], place["partition"], place["next_offset"])


def test_a_place_is_set(run: Callable[..., Result], database: Database, epoch: int) -> None:
    """After a dry run; whoever had it has lost it."""
    assert "do it with --yes" in run("set-place", *_WHERE, "--offset", "2").out
    assert "7" == run("list").rows[1][3]
    done = run("set-place", *_WHERE, "--offset", "2", "--why", "wrong rate", "--yes", "--by", "ann")
    assert "set: payments[3] of group ledger from 7 to 2\n" == done.out
    with database.begin() as connection:
        assert not places.take(connection, database, _ROW, epoch, -1, 7, 8)
        claimed = places.claim(connection, database, _ROW, "payments", "member-1")
    assert claimed is not None
    assert 2 == claimed.next_offset
    assert ["set-place"] == _actions(database)


def test_a_place_that_is_not_there(run: Callable[..., Result]) -> None:
    """It says which command lists those that are."""
    done = run("set-place", *_WHERE, "--offset", "2", "--yes")
    assert USAGE_ERROR == done.code
    assert "payments[3]: group 'ledger' has no place there" in done.err


@pytest.mark.usefixtures("epoch")
def test_ids_are_purged(run: Callable[..., Result], database: Database) -> None:
    """Those before a time, after a dry run."""
    at = "1970-01-01T00:00:01.500"
    assert "would forget 1 message; do it with --yes\n" == run("purge", "--before", at).out
    assert "forgotten: 1 message\n" == run("purge", "--before", at, "--yes").out
    assert ["purge-inbox"] == _actions(database)
    assert USAGE_ERROR == run("purge", "--before", "never").code


def test_a_database_that_is_away() -> None:
    """One sentence, and its code."""
    done = CliRunner().invoke(app, ["inbox", "list", "--store", "postgresql://localhost:1/none"])
    assert UNAVAILABLE == done.exit_code
