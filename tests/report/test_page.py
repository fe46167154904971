"""A browser draws the page, wide and narrow, and runs nothing else."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from linear_retry.report.charts import bundle
from linear_retry.report.page import render
from linear_retry.report.section import Tables
from tests.chromium import browser, seen
from tests.report.frames import HOSTILE, week

CHARTS = 7
_OF_LETTERS = ("letters", "letters_over_time")
_MARKS = ".mark-rect path, .mark-line path, .mark-area path"
_SIDES = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
_CLIPPED = """Array.from(document.querySelectorAll(".chart svg"), (svg) => {
  const [place, drawn] = [svg.closest("figure"), svg].map((each) => each.getBoundingClientRect());
  return drawn.right > place.right + 0.5 || drawn.left < place.left - 0.5 || drawn.width < 200;
})"""


@pytest.fixture(scope="module")
def opened() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("page") / "report.html"
    target.write_text(_rendered(week(), bundle()), "utf-8")
    return target


def _rendered(tables: Tables, scripts: str = "") -> str:
    at = datetime(2026, 11, 30, 12, tzinfo=UTC)
    return render(tables, scripts, lake="/lake", folder="report_tables/", made_at=at)[0]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
def test_every_chart_is_drawn(opened: Browser, file: Path, width: int, scheme: str) -> None:
    """Marks in each, nothing wider than its place, no error, and no request but for the page."""
    with seen(opened, file, width, "dark" if scheme == "dark" else "light") as found:
        charts = found.page.query_selector_all(".chart")
        assert CHARTS == len(charts)
        assert [] == [n for n, each in enumerate(charts) if not each.query_selector_all(_MARKS)]
        scrolled, visible = found.page.evaluate(_SIDES)
        assert (width, width) == (scrolled, visible)
        assert [False] * CHARTS == found.page.evaluate(_CLIPPED)
        assert [] == found.output
        assert [file.as_uri()] == found.asked_for


def test_what_a_letter_says_is_text(opened: Browser, file: Path) -> None:
    """A key, a type, a text that is a script is shown, and neither runs nor becomes an element."""
    with seen(opened, file, 1280) as found:
        assert "Outages and dead letters" == found.page.title()
        assert 0 == found.page.locator("img, iframe, object, a").count()
        assert CHARTS + 2 == found.page.locator("script").count()
        cells = found.page.locator("td").all_text_contents()
        assert HOSTILE.replace("\u2028", "\ufffd") in cells
        assert "49" not in cells


def test_the_page_runs_no_script_that_is_not_ours(opened: Browser, file: Path) -> None:
    """If something got through all the same, the page's own policy would keep it from running."""
    broken = file.with_name("broken.html")
    planted = "<script>document.title='run'</script><img src='http://127.0.0.1:9/x'>"
    broken.write_text(file.read_text("utf-8").replace("</header>", f"{planted}</header>"), "utf-8")
    with seen(opened, broken, 1280) as found:
        assert "Outages and dead letters" == found.page.title()
        refused = [line for line in found.output if "Content Security Policy" in line]
        assert 2 == len(refused) == len(found.output)


def test_data_of_charts_end_no_element() -> None:
    """In the JSON of the charts no tag can begin: not even the one that would end it."""
    data = re.findall(r'<script type="application/json">(.*?)</script>', _rendered(week()))
    assert CHARTS == len(data)
    assert not [each for each in data if set("<>&\u2028") & set(each)]
    assert any(HOSTILE[:20] in json.dumps(json.loads(each)) for each in data)


def test_what_is_not_there_is_reported() -> None:
    """A section without its table, or with an empty one, says so in a sentence."""
    tables = dict(week())
    of_letters = {name: tables[name] for name in (*_OF_LETTERS, "errors")}
    assert "This lake has no outages yet" in _rendered(of_letters)
    assert "Top keys" not in _rendered(of_letters)
    of_outages = {name: tables[name] for name in tables if name not in (*_OF_LETTERS, "keys")}
    assert "This lake has no dead letters" in _rendered(of_outages)
    empty = _rendered({name: table.iloc[:0] for name, table in tables.items()})
    assert "This lake has no outages yet" in empty
    assert "No rule of this report applies" in empty
    unknown = {**tables, "durations": tables["durations"].iloc[:0]}
    assert "No outage has known bounds of its duration" in _rendered(unknown)
