"""The repository has one address, which pyproject.toml names."""

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.docs.markdown import ROOT
from tests.packaging.distributions import PROJECT

_URLS = PROJECT["project"]["urls"]
_OURS = urlsplit(_URLS["Repository"]).path
_TEMPLATES = ROOT / ".github" / "ISSUE_TEMPLATE"
_FILES = (
    *(ROOT / "pyproject.toml", ROOT / "docs" / "conf.py"),
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("examples/**/*.md"),
    *_TEMPLATES.glob("*.yml"),
)
_ADDRESS = re.compile(r"https://(?:raw\.githubusercontent|github)\.com(/[\w.-]+/[\w.-]+)")


def test_all_files_name_the_same_address() -> None:
    """A repository whose name or owner is like ours is ours: no file has the old address."""
    names = {"linear-retry", "linear_retry", *_OURS.strip("/").split("/")}
    found = {
        (str(path.relative_to(ROOT)), address)
        for path in _FILES
        for address in _ADDRESS.findall(path.read_text("utf-8"))
        if names & set(address.split("/"))
    }
    assert {_OURS} == {address for _, address in found}, found
    assert {"pyproject.toml", "SECURITY.md"} <= {name for name, _ in found}


@pytest.mark.parametrize("label", sorted(_URLS))
def test_the_links_beside_the_description_exist(label: str) -> None:
    """Each is a page of the repository's host, or a file of the main branch."""
    rest = _URLS[label].removeprefix(_URLS["Repository"])
    if rest.startswith("/blob/main/"):
        assert (ROOT / rest.removeprefix("/blob/main/")).is_file()
    else:
        assert rest in {"", "/issues"}


@pytest.mark.parametrize("path", sorted(_TEMPLATES.glob("*.yml")), ids=lambda path: path.stem)
def test_the_issue_templates_are_valid(path: Path) -> None:
    """GitHub leaves out a template that does not keep to its schema, and says nothing."""
    kind = "config" if path.stem == "config" else "forms"
    check = (sys.executable, "-m", "check_jsonschema", "--builtin-schema")
    command = [*check, f"vendor.github-issue-{kind}", str(path)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 0 == checked.returncode, checked.stdout + checked.stderr
