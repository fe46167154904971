"""Options, environment and files name the cluster, in this order."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer import BadParameter
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.cli.options.connection import Connection


@pytest.fixture(autouse=True)
def config_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def _file(path: Path, *lines: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines))
    return path


def test_the_environment_names_brokers_and_file(
    config_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without options."""
    monkeypatch.setenv("LINEAR_RETRY_BOOTSTRAP", "env:1")
    assert {"bootstrap.servers": "env:1"} == Connection().keys()
    monkeypatch.setenv("LINEAR_RETRY_CONFIG", str(_file(config_home / "keys", "client.id=me")))
    assert {"bootstrap.servers": "env:1", "client.id": "me"} == Connection().keys()


def test_the_users_own_file_is_found(config_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At its place after XDG, which is under the home unless the environment has another."""
    lines = ("bootstrap.servers=own:1", "client.id=me")
    _file(config_home / "linear-retry/client.properties", *lines)
    assert {"bootstrap.servers": "own:1", "client.id": "me"} == Connection().keys()
    monkeypatch.setenv("LINEAR_RETRY_BOOTSTRAP", "env:1")
    assert {"bootstrap.servers": "env:1", "client.id": "me"} == Connection().keys()
    (config_home / ".config").mkdir()
    (config_home / "linear-retry").rename(config_home / ".config" / "linear-retry")
    monkeypatch.setenv("HOME", str(config_home))
    for ignored in ("", "relative"):
        monkeypatch.setenv("XDG_CONFIG_HOME", ignored)
        assert "me" == Connection().keys()["client.id"]


def test_what_is_written_comes_before_what_is_set(
    config_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The login in a file of `--config` does not go to the brokers of the environment."""
    named = _file(config_home / "named", "bootstrap.servers=named:1")
    monkeypatch.setenv("LINEAR_RETRY_BOOTSTRAP", "env:1")
    monkeypatch.setenv("LINEAR_RETRY_CONFIG", str(_file(config_home / "other", "client.id=me")))
    assert {"bootstrap.servers": "named:1"} == Connection(config=named).keys()
    assert {"bootstrap.servers": "new:1"} == Connection(config=named, bootstrap="new:1").keys()
    without = _file(config_home / "without", "client.id=you")
    expected = {"bootstrap.servers": "env:1", "client.id": "you"}
    assert expected == Connection(config=without).keys()


def test_a_problem_names_its_source(config_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable, where it is not the option."""
    monkeypatch.setenv("LINEAR_RETRY_CONFIG", str(config_home / "missing"))
    with pytest.raises(BadParameter, match="missing: cannot be read") as caught:
        Connection().keys()
    assert "LINEAR_RETRY_CONFIG" == caught.value.param_hint


@pytest.mark.parametrize("option", ["-b", "--bootstrap", "--bootstrap-server"])
def test_the_options_have_the_names_of_other_tools(option: str) -> None:
    """Those of kafka-topics.sh and kcat."""
    result = CliRunner().invoke(app, ["dlq", "list", "t", option, "nowhere", "-F", "/missing"])
    assert 2 == result.exit_code
    assert "/missing: cannot be read" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("linear-retry ci", ["circuits"]),
        ("linear-retry dlq re", ["rehearse", "replay", "resolve", "reopen"]),
    ],
)
def test_the_shell_completes_it(typed: str, completed: list[str]) -> None:
    """What typer's script for bash asks is answered with commands."""
    asking = {
        "_LINEAR_RETRY_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(typed.count(" ")),
    }
    done = subprocess.run(
        [sys.executable, "-c", "from linear_retry.cli import main; main()"],
        env={**os.environ, **asking},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ("", completed) == (done.stderr, done.stdout.split())


@pytest.mark.parametrize(
    ("command", "code", "answer"),
    [
        (["circuits", "list", "--group", "g"], 2, "no broker is named"),
        (["dlq", "list", "orders.dlq"], 2, "no broker is named"),
        (["console", "--bootstrap", "localhost:1"], 2, "this user has no home"),
        (["strategy", "show", "short-outage"], 0, "1h10m36s"),
    ],
)
def test_a_user_without_a_home(command: list[str], code: int, answer: str) -> None:
    """Every command ended in a traceback under a uid that passwd does not have, without HOME."""
    program = """
import pwd
def unknown(uid):
    raise KeyError(uid)
pwd.getpwuid = unknown  # as for the uids that OpenShift gives
from linear_retry.cli import main
main()
"""
    without = ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
    done = subprocess.run(
        [sys.executable, "-c", program, *command],
        env={name: value for name, value in os.environ.items() if name not in without},
        capture_output=True,
        text=True,
        check=False,
    )
    said = " ".join((done.stdout + done.stderr).split())
    assert (code, True, False) == (done.returncode, answer in said, "Traceback" in said), said
