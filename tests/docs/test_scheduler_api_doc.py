"""docs/operations/scheduler-api.md is true."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from docs.generators.metrics import exported_name
from linear_retry.cli import app
from linear_retry.monitoring.metrics import Metrics
from linear_retry.scheduler.http import create_app
from linear_retry.scheduler.http.metrics import ServiceMetrics, StoreMetrics
from linear_retry.scheduler.service import SchedulerService, SchedulerSettings
from linear_retry.store import audit, dead_letters, messages
from linear_retry.store.database import Database
from linear_retry.web import Access, HttpServer, read_users, serve
from tests.docs.markdown import blocks, code, page, table
from tests.patience import PATIENCE_S
from tests.prometheus import program
from tests.scheduler.http.openapi import operations
from tests.store.contents import new_dead_letter, new_message

_PAGE = page("docs/operations/scheduler-api.md")
_COMMANDS = [line for block in blocks(_PAGE, "sh") for line in block.splitlines()]
_WITH_A_LOGIN = ('curl -s -u "ann:', 'curl -s -H "Authorization:')
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
    """The file that the page's own commands make, and a token beside it."""
    commands = [line for line in _COMMANDS if line.startswith("python ")]
    made = "\n".join(commands).replace("python ", f"{sys.executable} -W ignore ")
    # In a session of its own there is no terminal to ask at: getpass reads the standard input.
    subprocess.run(
        ["sh", "-ec", made],
        cwd=tmp_path,
        input=f"{_PASSWORD}\n",
        text=True,
        check=True,
        timeout=PATIENCE_S,
        start_new_session=True,
        capture_output=True,
    )
    return tmp_path / "users"


def _sh(command: str, server: HttpServer, directory: Path | None = None) -> str:
    done = subprocess.run(
        ["sh", "-ec", command.replace(_SERVED, f"http://127.0.0.1:{server.port}")],
        env={"PASSWORD": _PASSWORD, "PATH": "/usr/bin:/bin"},
        cwd=directory,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    return done.stdout


def test_what_is_typed_is_answered(store: Database, users: Path) -> None:
    """The page's commands and its Python, one after the other, as the users whom it adds."""
    access = Access(read_users(users))
    with serve(create_app(store, access), access, 0) as server:
        for command in (line for line in _COMMANDS if line.startswith(_WITH_A_LOGIN)):
            answer = _sh(command, server, users.parent)
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
    local = "\n".join(
        line for line in _COMMANDS if line.startswith(("TOKEN=", 'curl -s -H "X-CSRF'))
    )
    with serve(create_app(store, access), access, 0) as server:
        assert '{"changed":1,"gone":0,"due":0}' == _sh(local, server)


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


def test_the_metrics_of_an_instance(store: Database) -> None:
    """Those that the table and the rules name are exported."""
    wanted = SchedulerSettings(config={}, topic="billing.scheduled", allow=["orders"])
    own = ServiceMetrics(SchedulerService(store, wanted)).collect()
    known = {exported_name(each) for each in (*own, *Metrics().describe())}
    (rules,) = (block for block in blocks(_PAGE, "yaml") if "alert:" in block)
    named = set(re.findall(r"linear_retry_\w+", rules))
    named |= {code(row[0])[0].partition("{")[0] for row in table(_PAGE, "instance metric")}
    assert set() == named - known
    assert f'group="{wanted.group_id}"' in rules


@pytest.mark.parametrize("kind", ["config", "rules"])
def test_prometheus_takes_what_it_is_given(kind: str, tmp_path: Path) -> None:
    """The page's scrape configuration and its rules, as promtool checks them."""
    scrape, rules = blocks(_PAGE, "yaml")
    file = tmp_path / "prometheus.yml"
    (tmp_path / "token").write_text("t0ken")
    given = scrape.replace("/etc/prometheus/scheduler.token", f"{tmp_path}/token")
    file.write_text(given if kind == "config" else rules)
    command = [program("promtool"), "check", kind, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert 0 == done.returncode, done.stderr


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
