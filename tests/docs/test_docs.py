"""The pages say what the code says, and their links lead somewhere."""

import dataclasses
import fnmatch
import logging
from datetime import UTC, datetime
from typing import Any, get_args

import pytest

from linear_retry import Event, Scope
from linear_retry.log import log
from tests.docs.markdown import ROOT, code, links, page, table

_PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("strategies/*.md"),
        *ROOT.glob("benchmarks/*.md"),
        *ROOT.glob("examples/**/*.md"),
    )
)
_ROWS = table(page("docs/events.md"), "event")
_EVENTS: dict[str, Any] = {event.__name__: event for event in get_args(Event)}
_VALUES: dict[str, object] = {
    "partitions": (("orders", 0),),
    "scope": Scope(),
    "retry_at": datetime(2026, 1, 1, tzinfo=UTC),
    "escaped_headers": (),
    "left_group": True,
}
"""Where a 1 would not do."""


@pytest.mark.parametrize("name", _PAGES)
def test_links_lead_to_files(name: str) -> None:
    """Every link of every page leads to a file of the checkout, or to the web."""
    local = [link for link in links(page(name)) if not link.startswith("https://")]
    lost = [link for link in local if not (ROOT / name).parent.joinpath(link).exists()]
    assert [] == lost


def test_contributing_has_every_room() -> None:
    """Each module and folder at the package's root is in its table, and no other."""
    package = {
        f"{path.name}/" if path.is_dir() else path.name
        for path in (ROOT / "linear_retry").iterdir()
        if path.name not in {"__init__.py", "__pycache__"} and path.suffix in {"", ".py"}
    }
    rows = [code(row[0]) for row in table(page("CONTRIBUTING.md"), "room")]
    told = {
        name.removeprefix("linear_retry/")
        for names in rows
        for name in names
        if names[0].startswith("linear_retry/") and name != "pytest_linear_retry.py"
    }
    assert set() == {name for name in package if not any(fnmatch.fnmatch(name, p) for p in told)}
    assert set() == {pattern for pattern in told if not fnmatch.filter(package, pattern)}


@pytest.mark.parametrize(
    ("name", "figure"), [("docs/loops.md", "0.84 µs"), ("docs/dead-letters.md", "7.1 ms")]
)
def test_a_page_gives_the_figure_of_the_readme(name: str, figure: str) -> None:
    """The pages had other figures, and of another machine, than the table of the README."""
    rows = [row for row in table(page("README.md"), "figure") if "slower machine" in row[0]]
    assert [figure] == [figure for row in rows if figure in row[1]]
    assert figure in page(name)


def test_the_table_has_every_event_and_its_fields() -> None:
    """docs/events.md names each event and each of its fields, in the class's order."""
    told = {code(row[0])[0]: code(row[1]) for row in _ROWS}
    fields = {
        name: [field.name for field in dataclasses.fields(event)] for name, event in _EVENTS.items()
    }
    assert fields == told


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: row[0].strip("`"))
def test_the_table_has_the_log_level(row: list[str], caplog: pytest.LogCaptureFixture) -> None:
    """docs/events.md gives the level at which an event is logged."""
    event = _EVENTS[code(row[0])[0]]
    values = {field.name: _VALUES.get(field.name, 1) for field in dataclasses.fields(event)}
    with caplog.at_level(logging.DEBUG, logger="linear_retry"):
        log(event(**values))
    assert [row[-1]] == [record.levelname for record in caplog.records]


def test_alerts_are_events() -> None:
    """What docs/events.md alerts on exists."""
    alerts = [name for row in table(page("docs/events.md"), "alert on") for name in code(row[0])]
    assert [] == [name for name in alerts if name not in _EVENTS]
