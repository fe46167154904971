"""The pages say what the code says, and their links lead somewhere."""

import fnmatch
from typing import get_args

import pytest

from linear_retry import Event
from tests.docs.markdown import ROOT, anchors, code, links, page, table

_PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("strategies/*.md"),
        *ROOT.glob("benchmarks/*.md"),
        *ROOT.glob("examples/**/*.md"),
    )
)
_EVENTS = {event.__name__ for event in get_args(Event)}


@pytest.mark.parametrize("name", _PAGES)
def test_links_lead_to_files(name: str) -> None:
    """Every link of every page leads to a file of the checkout, or to the web."""
    local = [link for link in links(page(name)) if not link.startswith("https://")]
    lost = [
        link for link in local if not (ROOT / name).parent.joinpath(link.partition("#")[0]).exists()
    ]
    assert [] == lost


@pytest.mark.parametrize("name", _PAGES)
def test_anchors_are_headings(name: str) -> None:
    """A link into a page, or further down its own, leads to a heading."""
    parts = [link.partition("#") for link in links(page(name)) if not link.startswith("https://")]
    targets = [
        ((ROOT / name).parent / path if path else ROOT / name, anchor)
        for path, _, anchor in parts
        if anchor
    ]
    lost = [
        (str(path), anchor)
        for path, anchor in targets
        if anchor not in anchors(path.read_text("utf-8"))
    ]
    assert [] == lost


def test_contributing_has_every_room() -> None:
    """Each module and folder at the package's root is in its table, and no other."""
    package = {
        f"{path.name}/" if path.is_dir() else path.name
        for path in (ROOT / "linear_retry").iterdir()
        if path.name not in {"__init__.py", "__pycache__"} and path.suffix in {"", ".py"}
    }
    rows = [code(row[0]) for row in table(page("CONTRIBUTING.md"), "room")]
    reported = {
        name.removeprefix("linear_retry/")
        for names in rows
        for name in names
        if names[0].startswith("linear_retry/") and name != "pytest_linear_retry.py"
    }
    assert set() == {
        name for name in package if not any(fnmatch.fnmatch(name, p) for p in reported)
    }
    assert set() == {pattern for pattern in reported if not fnmatch.filter(package, pattern)}


@pytest.mark.parametrize(
    ("name", "figure"),
    [("docs/guides/loops.md", "0.84 µs"), ("docs/dead-letters/format.md", "7.1 ms")],
)
def test_a_page_gives_the_figure_of_the_benchmarks(name: str, figure: str) -> None:
    """The figures of a page are those of the table of measurements."""
    rows = [
        row for row in table(page("benchmarks/README.md"), "figure") if "slower machine" in row[0]
    ]
    assert [figure] == [figure for row in rows if figure in row[1]]
    assert figure in page(name)


def test_alerts_are_events() -> None:
    """What docs/reference/events.md alerts on exists."""
    alerts = [
        name for row in table(page("docs/reference/events.md"), "alert on") for name in code(row[0])
    ]
    assert [] == [name for name in alerts if name not in _EVENTS]
