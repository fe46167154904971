"""The index of the examples is complete."""

import re

import pytest

from tests.docs.markdown import ROOT, code, links, page, table

_FOLDER = ROOT / "examples"
_EXAMPLES = sorted(path.parent.name for path in _FOLDER.glob("*/README.md"))
_ROWS = table(page("examples/README.md"), "example")


def test_it_has_every_example() -> None:
    """Each folder has a page, and each page a row."""
    folders = {path.name for path in _FOLDER.iterdir() if any(path.glob("**/*.py"))}
    assert folders == set(_EXAMPLES)
    assert [f"{name}/README.md" for name in _EXAMPLES] == sorted(
        link for row in _ROWS for link in links(row[0])
    )


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: re.findall(r"\w+", row[0])[0])
def test_what_it_runs_stands_on_the_page(row: list[str]) -> None:
    """A reader of the page finds the command of the index there."""
    (command,) = code(row[2])
    (link,) = links(row[0])
    assert f"\n{command}" in page(f"examples/{link}")


def test_no_folder_has_more_than_a_dozen_names() -> None:
    """A reader sees at once what is there."""
    folders = [_FOLDER, *(path for path in _FOLDER.rglob("*") if path.is_dir())]
    names = {
        path.relative_to(ROOT): [
            each.name for each in path.iterdir() if not each.name.startswith(("__", "."))
        ]
        for path in folders
    }
    assert {} == {path: found for path, found in names.items() if len(found) > 12}
