"""The command of the console."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.cli.watch import console as watch_console
from linear_retry.console.state.settings import Settings


def test_a_library_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With what to install, and exit code 2; never a traceback."""
    for name in [name for name in sys.modules if name.startswith("linear_retry.console")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    command = ["console", "--bootstrap", "localhost:1", "--state", str(tmp_path)]
    result = CliRunner().invoke(app, command)
    assert 2 == result.exit_code
    assert "fastapi is missing: pip install 'linear-retry[console]'" in result.stderr


def test_each_option_is_what_the_console_is_served_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sqlite_url: str
) -> None:
    """The files of its own are in the directory of XDG, unless another one is named."""
    served = list[tuple[Settings, str]]()
    monkeypatch.setattr(
        watch_console, "_serve", lambda settings, _, http, **__: served.append((settings, http))
    )
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    options = {"--bootstrap": "localhost:1", "--journal": "j", "--since": "2026-11-21"}
    options |= {"--control": "c", "--dead-letters": "a.dlq"}
    options |= {"--report": "https://report", "--schema-registry": "http://registry"}
    options |= {"--store": sqlite_url, "--http": "127.0.0.1:7"}
    command = ["console", *(part for option in options.items() for part in option)]
    flags = ["--dead-letters", "b.dlq", "--read-only", "--show-values"]
    for more in ([], ["--state", str(tmp_path / "own")]):
        assert 0 == CliRunner().invoke(app, [*command, *flags, *more]).exit_code
    (settings, http), (other, _) = served
    expected = Settings(
        kafka={"bootstrap.servers": "localhost:1"},
        state=tmp_path / "linear-retry" / "console",
        journal="j",
        journal_since_ms=1_795_219_200_000,
        control="c",
        dead_letters=("a.dlq", "b.dlq"),
        store=settings.store,
        report="https://report",
        schema_registry="http://registry",
        is_read_only=True,
        shows_values=True,
    )
    assert (expected, "127.0.0.1:7") == (settings, http)
    assert settings.store is not None
    assert tmp_path / "own" == other.state


def test_without_a_store_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not even the file that other commands take then."""
    served = list[Settings]()
    monkeypatch.setattr(watch_console, "_serve", lambda settings, *_, **__: served.append(settings))
    monkeypatch.delenv("LINEAR_RETRY_STORE", raising=False)
    command = ["console", "--bootstrap", "localhost:1", "--state", str(tmp_path)]
    assert 0 == CliRunner().invoke(app, command).exit_code
    assert [None] == [each.store for each in served]
