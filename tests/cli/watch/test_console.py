"""The command of the console."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from linear_retry.cli import app


@pytest.mark.parametrize(
    ("library", "install"),
    [("fastapi", "'linear-retry[console]'"), ("deltalake", "deltalake")],
)
def test_a_library_that_is_missing_is_named(
    library: str, install: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With what to install, and exit code 2; never a traceback."""
    for name in [name for name in sys.modules if name.startswith("linear_retry.console")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    command = ["console", "--bootstrap", "localhost:1", "--state", str(tmp_path)]
    result = CliRunner().invoke(app, [*command, "--lake", str(tmp_path)])
    assert 2 == result.exit_code
    assert f"{library} is missing: pip install {install}" in result.stderr
