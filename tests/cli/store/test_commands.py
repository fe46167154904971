"""The commands on the store, over SQLite and PostgreSQL."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from sqlalchemy import select
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.retry.clock import now_ms
from linear_retry.scheduler.destination_setting import remember
from linear_retry.scheduler.destinations import Destinations
from linear_retry.store import audit, dead_letters, messages
from linear_retry.store.database import Database
from linear_retry.store.schema import dead_letter, message
from tests.cli.result import Result
from tests.store.contents import new_dead_letter, new_message

Run: TypeAlias = Callable[..., Result]


@pytest.fixture
def run(store_url: str) -> Run:
    """A command on the store of the test."""

    def call(*arguments: str, service: str = "scheduler") -> Result:
        environment = {"LINEAR_RETRY_STORE": store_url}
        done = CliRunner(env=environment).invoke(app, [service, *arguments])
        return Result(done.exit_code, done.stdout, done.stderr)

    return call


def _add(database: Database, *new: Any) -> None:
    with database.begin() as connection:
        for each in new:
            is_dead = "reason" in {field.name for field in fields(each)}
            (dead_letters if is_dead else messages).add(database, connection, [each])


def _due_ms(database: Database) -> dict[int, int]:
    with database.reading() as connection:
        rows: Sequence[Any] = connection.execute(select(message.c.id, message.c.due_ms)).all()
    return {row.id: row.due_ms for row in rows}


def _dead(database: Database) -> list[int]:
    with database.reading() as connection:
        return [*connection.scalars(select(dead_letter.c.id))]


def _audit(database: Database) -> list[tuple[str, str, int, str]]:
    with database.reading() as connection:
        changes = audit.read(connection, limit=10)
    return [(each.actor, each.action, each.count, each.details["comment"]) for each in changes]


def test_list_and_show(run: Run, database: Database) -> None:
    """The messages in the order in which they are due, without values; one of them in full."""
    _add(
        database,
        new_message(due_ms=2000, key=b"\xff", value=None, retry_id="second"),
        new_message(due_ms=1000, retry_id="first"),
        new_message(due_ms=0, destination="refunds"),
        new_message(service="outbox", slot="any"),
    )
    head, *rows = run("list", "--destination", "orders").rows
    assert ["number", "due", "destination", "slot", "id", "bytes", "held"] == head
    assert [
        ["2", "1970-01-01 00:00:01.000Z", "orders", "0", "first", "5", "-"],
        ["1", "1970-01-01 00:00:02.000Z", "orders", "0", "second", "null", "-"],
    ] == rows
    found = run("list", "--json", "--limit", "1", "--since", "1970-01-01T00:00:02")
    assert {"base64": "/w=="} == found.objects[0]["key"]
    assert "there may be more" in found.err
    shown = run("show", "1").out
    assert "due         1970-01-01 00:00:02.000Z" in shown
    assert "key         1 byte, not printed without --payload" in shown
    assert "  trace = 1" in shown
    (whole,) = run("show", "1", "--payload", "--json").objects
    assert (None, {"base64": "/w=="}, [{"name": "trace", "value": "1"}]) == (
        whole["value"],
        whole["key"],
        whole["headers"],
    )
    assert 1 == run("show", "99").code


def test_list_dead_letters(run: Run, database: Database) -> None:
    """By reason, error and key; with what could not be sent."""
    _add(
        database,
        new_dead_letter(),
        new_dead_letter(reason="unreadable", error="retry-at-ms is b'soon'", destination=""),
    )
    (row,) = run("list", "--dead", "--error", "SOON").rows[1:]
    assert ["2", "-", "billing/orders/0/1", "unreadable", "retry-at-ms is b'soon'"] == [
        row[0],
        *row[2:],
    ]
    (row,) = run("list", "--dead", "--reason", "too-large", "--key", "key").rows[1:]
    assert ["1", "orders[0]"] == [row[0], row[2]]
    nothing = run("list", "--dead", "--key", "other")
    assert ("", "no dead letter that matches\n") == (nothing.out, nothing.err)


def test_nothing_without_yes(run: Run, database: Database) -> None:
    """A dry run counts, changes nothing, and leaves no line in the audit."""
    later_ms = now_ms() + 3_600_000
    _add(database, new_message(due_ms=later_ms), new_dead_letter())
    for command in (
        ("send", "1"),
        ("postpone", "--for", "1h", "1"),
        ("give-up", "1"),
        ("delete", "1"),
        ("send", "--dead", "1"),
        ("delete", "--dead", "--destination", "orders"),
    ):
        done = run(*command)
        would = f"would {command[0].replace('-', ' ')}"
        assert (0, True) == (done.code, done.out.startswith(would))
    assert {1: later_ms} == _due_ms(database)
    assert [1] == _dead(database)
    assert [] == _audit(database)


def test_changes_by_number(run: Run, database: Database) -> None:
    """Due now, due later, gone, forwarded: each with who and why in the audit."""
    later_ms = now_ms() + 3_600_000
    _add(database, *(new_message(due_ms=later_ms) for _ in range(4)))
    _add(database, new_dead_letter(), new_dead_letter())
    end = ("--by", "ops@desk", "--why", "test", "--yes")
    assert "sent: 1 message\n" == run("send", "1", *end).out
    assert (
        "postponed to 2099-01-01 00:00:00Z: 1 message\n"
        == run("postpone", "2", "--to", "2099-01-01", *end).out
    )
    assert "deleted: 1 message\n" == run("delete", "3", "77", *end).out
    assert "given up: 1 message\n" == run("give-up", "4", *end).out
    assert "sent: 1 dead letter\n" == run("send", "--dead", "1", *end).out
    assert "deleted: 2 dead letters\n" == run("delete", "--dead", "2", "3", *end).out
    due_ms = _due_ms(database)
    assert due_ms[1] <= now_ms()
    assert 4_070_908_800_000 == due_ms[2]
    assert {1, 2} < due_ms.keys()
    assert [] == _dead(database)
    assert [
        ("ops@desk", action, count, "test")
        for action, count in (
            ("delete-dead-letter", 2),
            ("forward", 1),
            ("give-up", 1),
            ("delete-message", 1),
            ("postpone", 1),
            ("send-now", 1),
        )
    ] == _audit(database)
    assert 1 == run("delete", "3", *end).code


def test_dead_letters_go_where_the_scheduler_may_send(run: Run, database: Database) -> None:
    """Those of the scheduler; an outbox's go where its application sends them. One that may not
    leaves all of them where they are."""
    remember(database, Destinations("billing.scheduled", ("refunds*",)))
    remember(database, Destinations("billing.scheduled", ("orders*",), "failed"))
    given = new_dead_letter(destination="payments")
    _add(database, new_dead_letter(), given, new_dead_letter(destination="failed"))
    _add(database, replace(given, service="outbox"))
    for more in ((), ("--yes",)):
        refused = run("send", "--dead", "1", "2", *more)
        assert (3, "") == (refused.code, refused.out)
        assert "topic 'payments' may not be sent to: --allow has orders*" in refused.err
    assert "it is a dead-letter topic" in run("send", "--dead", "3", "--yes").err
    assert [1, 2, 3, 4] == _dead(database)
    assert 0 == run("send", "--dead", "1", "--yes").code
    assert 0 == run("send", "--dead", "4", "--yes", service="outbox").code
    assert [2, 3] == _dead(database)


def test_changes_by_selection(run: Run, database: Database) -> None:
    """Only the service's own that match."""
    _add(
        database,
        *(new_message(due_ms=2**40, group_id=name) for name in ("billing", "billing", "other")),
        new_message(service="outbox", group_id="billing", due_ms=2**40),
    )
    assert "deleted: 2 messages\n" == run("delete", "--group", "billing", "--yes").out
    assert {3, 4} == _due_ms(database).keys()


@pytest.mark.parametrize(
    "arguments",
    [
        ("send",),
        ("delete", "1", "--destination", "orders"),
        ("postpone", "1"),
        ("postpone", "1", "--for", "1h", "--to", "2099-01-01"),
        ("postpone", "1", "--for", "1h", "--dead"),
        ("give-up", "1", "--dead"),
        ("list", "--dead", "--held"),
        ("list", "--reason", "exhausted"),
        ("show", str(2**63)),
        ("delete", str(2**63)),
    ],
)
def test_what_cannot_be_meant(run: Run, arguments: tuple[str, ...]) -> None:
    """Everything at once, or two ways to say which, are a wrong usage."""
    assert 2 == run(*arguments).code


def test_stats(run: Run, database: Database) -> None:
    """What waits and is due, by destination; what is dead, by reason."""
    _add(
        database,
        new_message(),
        new_message(due_ms=2**42),
        new_dead_letter(),
        new_dead_letter(),
    )
    assert [
        ["waiting"],
        ["destination", "waiting", "due", "first due"],
        ["orders", "2", "1", "1970-01-01 00:00:00.000Z"],
        ["held: none"],
        ["dead"],
        ["letters", "reason", "error"],
        ["2", "too-large", "orders[0] refuses a message of 2 MB"],
    ] == run("stats").rows
    assert ["waiting", "dead"] == [each["kind"] for each in run("stats", "--json").objects]


def test_migrate(tmp_path: Path) -> None:
    """Once the tables are made, it says that they are there; before, the commands name it."""
    environment = {"LINEAR_RETRY_STORE": f"sqlite:///{tmp_path / 'new.sqlite3'}"}
    runner = CliRunner(env=environment)
    missing = runner.invoke(app, ["scheduler", "list"])
    assert 2 == missing.exit_code
    assert "linear-retry scheduler migrate" in missing.stderr
    assert "from no tables to version" in runner.invoke(app, ["scheduler", "migrate"]).stdout
    assert "already" in runner.invoke(app, ["scheduler", "migrate"]).stdout
    assert 0 == runner.invoke(app, ["scheduler", "list"]).exit_code


@pytest.mark.parametrize("command", [["list"], ["show", "1"], ["stats"], ["delete", "1", "--yes"]])
def test_a_wrong_directory(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no store is, none is made: it would look like a store in which nothing waits."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["scheduler", *command])
    assert (2, "") == (done.exit_code, done.stdout)
    assert f"there is no store at {tmp_path / 'linear-retry.sqlite3'}; name it with" in done.stderr
    assert [] == [*tmp_path.iterdir()]


def test_a_wrong_store() -> None:
    """A store that cannot be is wrong usage; its password is never printed."""
    wrong = CliRunner().invoke(
        app, ["scheduler", "list", "--store", "mysql://someone:secret@host/db"]
    )
    assert 2 == wrong.exit_code
    assert "secret" not in wrong.stderr
