"""Nothing on a page moves because a number on it has another length."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.console.browser.axe import WIDTHS
from tests.console.browser.conftest import NewPage
from tests.console.browser.consuming import Dependency, Line
from tests.console.browser.shifts import shifts, watch

pytestmark = pytest.mark.broker


def test_numbers_change_and_nothing_moves(line: Line, new_page: NewPage, tmp_path: Path) -> None:
    """The countdown, the ages, and the lag, from one digit to four; wide and narrow."""
    line.add_orders(0)
    pages = [new_page(width) for width in WIDTHS]
    with line.console(tmp_path) as at, line.consumed(Dependency().call):
        for page in pages:
            page.goto(f"{at}/now")
            expect(page.locator("article.circuit")).to_be_visible()
            expect(page.get_by_text("lag 1", exact=True)).to_be_visible()
            watch(page)
        line.add_orders(*[0] * 11)
        for page in pages:
            expect(page.get_by_text("lag 12", exact=True)).to_be_visible()
        line.add_orders(*[0] * 1_200)
        for page in pages:
            expect(page.get_by_text("lag 1,212", exact=True)).to_be_visible()
            age = page.locator("article.circuit time[data-since-ms]")
            expect(age).to_have_text(re.compile(r"^[1-9]\ds$"))
            assert [] == shifts(page)


def test_what_moves_is_noticed(new_page: NewPage) -> None:
    """Else the test above would find nothing."""
    page = new_page()
    page.set_content("<h1 id='before'>one</h1><p>two</p>")
    watch(page)
    page.evaluate("document.getElementById('before').style.height = '300px'")
    assert 1 == len(shifts(page))
