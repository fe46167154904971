"""What is published holds what users need, and nothing else."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from linear_retry import Strategy
from tests.docs.markdown import ROOT
from tests.packaging.conftest import Built
from tests.packaging.distributions import PROJECT, check


def test_pypi_takes_them(built: Built) -> None:
    """`twine check --strict` finds no fault with the metadata, and can render the description."""
    check(built.wheel, built.sdist)


def test_the_sdist_builds_the_same_wheel(built: Built) -> None:
    """Whoever builds from source gets what everyone else gets."""
    contents = []
    for wheel in (built.wheel, built.wheel_of_sdist):
        with ZipFile(wheel) as archive:
            contents.append({each.filename: each.CRC for each in archive.infolist()})
    assert contents[0] == contents[1]


def test_a_wheel_has_the_package_alone(built: Built) -> None:
    """Its modules with their data, the strategies, the license; no tests, no docs, no leftovers."""
    with ZipFile(built.wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        (license_text,) = (
            archive.read(name) for name in archive.namelist() if name.endswith("licenses/LICENSE")
        )
    package = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "linear_retry").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    strategies = {f"linear_retry/{path.relative_to(ROOT)}" for path in ROOT.glob("strategies/*")}
    assert package | strategies | {"pytest_linear_retry.py"} == names
    assert {"linear_retry/py.typed", "linear_retry/strategy/strategy.schema.json"} < names
    assert (ROOT / "LICENSE").read_bytes() == license_text


def test_an_installed_wheel_has_the_ready_strategies(built: Built, tmp_path: Path) -> None:
    """Whoever installed the package had none: the files were in the repository alone."""
    program = (
        "import json, linear_retry; from linear_retry.strategy.file import ready_names; "
        "labels = {name: linear_retry.Strategy.named(name).label for name in ready_names()}; "
        "print(json.dumps([linear_retry.__file__, labels]))"
    )
    where, labels = json.loads(_output(built, tmp_path, sys.executable, "-c", program))
    assert str(built.installed / "linear_retry" / "__init__.py") == where
    files = sorted((ROOT / "strategies").glob("*.json"))
    assert {path.stem: Strategy.load(path).label for path in files} == labels


def test_a_wheel_works_from_the_zip_that_it_is(built: Built, tmp_path: Path) -> None:
    """From `--py-files` or a zipapp, neither the strategies nor the store's tables were found."""
    program = """
import linear_retry, sys
from linear_retry.console.frame.rendering import STATIC
from linear_retry.report.page import render
from linear_retry.store.database import Database
from linear_retry.store.migrations import check_version, migrate
from linear_retry.strategy.file import ready_names, schema
print(linear_retry.__file__, *map(linear_retry.Strategy.named, ready_names()), schema()["title"])
database = Database("sqlite:///" + sys.argv[1])
print(migrate(database).after, check_version(database), len(list(STATIC.iterdir())))
"""
    command = (sys.executable, "-c", program, str(tmp_path / "store.sqlite3"))
    said = _output(built, tmp_path, *command, where=built.wheel)
    assert said.startswith(str(built.wheel / "linear_retry" / "__init__.py"))


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [("--help", "Usage: linear-retry"), ("strategy show short-outage", "1h10m36s")],
)
def test_an_installed_wheel_has_the_command(
    arguments: str, answer: str, built: Built, tmp_path: Path
) -> None:
    """It answers from any directory."""
    command = str(built.installed / "bin" / "linear-retry")
    assert answer in _output(built, tmp_path, command, *arguments.split())


def test_the_classifiers_name_the_pythons_from_the_oldest_on(built: Built) -> None:
    """Those between the oldest that is accepted and the newest that has been tested."""
    versions = [
        int(found[1])
        for classifier in built.metadata.get_all("Classifier", [])
        if (found := re.fullmatch(r"Programming Language :: Python :: 3\.(\d+)", classifier))
    ]
    oldest = int(PROJECT["project"]["requires-python"].removeprefix(">=3."))
    assert list(range(oldest, versions[-1] + 1)) == versions
    assert f"Python 3.{oldest} to 3.{versions[-1]}" in (ROOT / "README.md").read_text("utf-8")


def _output(built: Built, directory: Path, *command: str, where: Path | None = None) -> str:
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(where or built.installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout
