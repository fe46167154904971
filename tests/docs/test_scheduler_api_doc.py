"""docs/operations/scheduler-api.md is true."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.scheduler.http import Access, HttpServer, create_app, read_users, serve
from linear_retry.scheduler.http.metrics import StoreMetrics
from linear_retry.store import audit, dead_letters, messages
from linear_retry.store.database import Database
from tests.docs.markdown import blocks, code, page, table
from tests.scheduler.http.openapi import operations
from tests.store.contents import new_dead_letter, new_message

_PAGE = page("docs/operations/scheduler-api.md")
_COMMANDS = [line for block in blocks(_PAGE, "sh") for line in block.splitlines()]
_PASSWORD = "correct horse"
_SERVED = "http://127.0.0.1:8099"


@pytest.fixture
def store(sqlite_url: str) -> Iterator[Database]:
    """Two messages and two dead letters."""
    database = Database(sqlite_url)
    with database.begin() as connection:
        messages.add(database, connection, [new_message(due_ms=10**14)] * 2)
        reasons = ("too-large", "exhausted")
        letters = [new_dead_letter(reason=reason) for reason in reasons]
        dead_letters.add(database, connection, letters)
    yield database
    database.close()


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """The file that the page's own command makes."""
    (command,) = (line for line in _COMMANDS if line.startswith("python "))
    made = command.replace("python ", f"{sys.executable} -W ignore ")
    # In a session of its own there is no terminal to ask at: getpass reads the standard input.
    subprocess.run(
        ["sh", "-c", made],
        cwd=tmp_path,
        input=f"{_PASSWORD}\n",
        text=True,
        check=True,
        timeout=60,
        start_new_session=True,
        capture_output=True,
    )
    return tmp_path / "users"


def _sh(command: str, server: HttpServer) -> str:
    done = subprocess.run(
        ["sh", "-ec", command.replace(_SERVED, f"http://127.0.0.1:{server.port}")],
        env={"PASSWORD": _PASSWORD, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout


def test_what_is_typed_is_answered(store: Database, users: Path) -> None:
    """The page's commands and its Python, one after the other, as the user whom it adds."""
    access = Access(read_users(users))
    with serve(create_app(store, access), access, 0) as server:
        for command in (line for line in _COMMANDS if line.startswith('curl -s -u "ann:')):
            answer = _sh(command, server)
            assert not answer.startswith('{"error":'), command
            assert answer, command
        (program,) = blocks(_PAGE, "python")
        served = program.replace(_SERVED, f"http://127.0.0.1:{server.port}")
        exec(compile(served, "scheduler-api.md", "exec"), {"PASSWORD": _PASSWORD})
    with store.reading() as connection:
        changes = audit.read(connection, limit=10)
        found = messages.waiting(connection, "scheduler")
    assert ["forward", "edit-and-forward", "postpone", "send-now"] == [c.action for c in changes]
    assert {"ann"} == {change.actor for change in changes}
    assert 4 == len(found)


def test_without_a_password(store: Database) -> None:
    """On this machine without users, a change needs the token."""
    access = Access()
    local = "\n".join(line for line in _COMMANDS if line.startswith(("TOKEN=", "curl -s -H")))
    with serve(create_app(store, access), access, 0) as server:
        assert '{"changed":1,"gone":0}' == _sh(local, server)


def test_the_options_exist() -> None:
    """Those of the page's commands and of its text."""
    output = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["scheduler", "run", "--help"]).output
    used = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", _PAGE)) - {"--json"}
    assert set() == used - set(re.findall(r"--[a-z][a-z-]*", output))


def test_every_path_is_there() -> None:
    """The tables name all paths of the API, and no other."""
    described = create_app(Database("sqlite:////nowhere/store.sqlite3"), Access()).openapi()
    paths = {re.sub(r"\{\w+\}", "ID", str(each)) for each in operations(described)}
    tables = {
        f"{method} /api/v1/{code(row[0])[0]}"
        for method in ("GET", "POST")
        for row in table(_PAGE, f"`{method} /api/v1/`")
    }
    tables |= {f"GET {code(row[0])[0]}" for row in table(_PAGE, "path")}
    tables |= {f"POST {path}" for path in re.findall(r"`POST (/api/v1/session/\S+)`", _PAGE)}
    assert paths == tables


def test_the_metrics(store: Database) -> None:
    """All of them, with their labels and meanings."""
    rows = {
        row[0].strip("`"): (code(row[1]), row[2].split(":")[0].removeprefix("the ").lower())
        for row in table(_PAGE, "store metric")
    }
    assert {
        family.name: (list(vars(family)["_labelnames"]), family.documentation.lower())
        for family in StoreMetrics(store).collect()
    } == rows
