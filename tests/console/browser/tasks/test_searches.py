"""Whoever looks into what has been finds it: outages by group and time, changes by who and what."""

import pytest
from playwright.sync_api import Page, expect

from tests.console.browser.filled import Shown
from tests.console.browser.filled import postgres_store as postgres_store
from tests.console.browser.filled import shown as shown
from tests.console.recording import record

pytestmark = pytest.mark.broker


def test_outages_of_a_group(shown: Shown, page: Page) -> None:
    """Chosen from those that there are; a time without any has words of its own."""
    shown.open(page, "/")
    page.get_by_role("link", name="Outages").click()
    expect(page.get_by_text("2 outages in the last 7 days")).to_be_visible()
    page.get_by_role("combobox", name="Group").select_option("stock")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("1 outage in the last 7 days")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="stock")).to_contain_text("recovered")
    page.get_by_role("combobox", name="Time").select_option("1")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("No circuit was open in the last 24 hours.")).to_be_visible()


def test_the_audit_is_searched(shown: Shown, page: Page) -> None:
    """By who and what; what is found can be downloaded, and no other change with it."""
    record(shown.services.audit, "bob", "resolve", "orders[0]@7", why="by hand", outcome="done")
    shown.open(page, "/")
    page.get_by_role("link", name="Audit").click()
    expect(page.get_by_role("row").filter(has_text="it is back")).to_be_visible()
    page.get_by_label("Who").fill("bob")
    page.get_by_label("What").fill("resolve")
    page.get_by_label("What").press("Enter")
    expect(page.get_by_role("row").filter(has_text="orders[0]@7").first).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="it is back")).to_have_count(0)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download as CSV").click()
    text = download.value.path().read_text("utf-8")
    assert ("by hand" in text, "it is back" in text) == (True, False)
    page.get_by_label("Who").fill("nobody")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_text("Nothing matches.")).to_be_visible()
    page.get_by_role("link", name="Show all").click()
    expect(page.get_by_role("row").filter(has_text="it is back")).to_be_visible()
