"""The ready strategies are there wherever the package is."""

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from linear_retry import Strategy, StrategyError
from linear_retry.cli import app
from linear_retry.strategy.file import ready_names
from tests.docs.markdown import ROOT, code, page, table
from tests.hatchling import build

_FILES = {path.stem: path for path in sorted((ROOT / "strategies").glob("*.json"))}


def _built_of(source: str, target: Path) -> Path:
    if source == "checkout":
        return build("wheel", ROOT, target)
    with tarfile.open(build("sdist", ROOT, target)) as archive:
        archive.extractall(target, filter="data")
    (unpacked,) = (path for path in target.iterdir() if path.is_dir())
    return build("wheel", unpacked, target)


@pytest.mark.parametrize("source", ["checkout", "sdist"])
def test_a_wheel_has_them(source: str, tmp_path: Path) -> None:
    """Whoever installed the package had none: the files were in the repository alone."""
    built, installed = tmp_path / "built", tmp_path / "installed"
    built.mkdir()
    with zipfile.ZipFile(_built_of(source, built)) as wheel:
        wheel.extractall(installed)
    program = (
        "import json, linear_retry; from linear_retry.strategy.file import ready_names; "
        "labels = [linear_retry.Strategy.named(name).label for name in ready_names()]; "
        "print(json.dumps([linear_retry.__file__, labels]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )
    where, labels = json.loads(done.stdout)
    assert str(installed / "linear_retry" / "__init__.py") == where
    assert [Strategy.load(path).label for path in _FILES.values()] == labels


def test_a_checkout_has_them() -> None:
    """Each file of strategies/ is one, by the name that its page has."""
    reported = [
        name.removesuffix(".json")
        for row in table(page("strategies/README.md"), "file")
        for name in code(row[0])
    ]
    assert sorted(reported) == list(_FILES) == list(ready_names())
    for name, path in _FILES.items():
        assert Strategy.load(path) == Strategy.named(name)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    """And how a file is read."""
    with pytest.raises(StrategyError) as caught:
        Strategy.named("short-outages")
    assert (
        'no ready-made strategy "short-outages"; there are deploy-blip, overnight, rate-limited, '
        "short-outage, strict-ledger, and Strategy.load reads your own file"
    ) == str(caught.value)


def test_the_command_takes_a_name_for_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is a file of that name, the file is meant."""
    monkeypatch.chdir(tmp_path)
    check = ("strategy", "check", "short-outage")
    shown = CliRunner().invoke(app, [*check])
    assert (0, "short-outage: ok, 6 waits, 1h10m36s\n") == (shown.exit_code, shown.stdout)
    Path("short-outage").write_text("[1]")
    shown = CliRunner().invoke(app, [*check])
    assert (0, "short-outage: ok, 1 wait, 1s\n") == (shown.exit_code, shown.stdout)
