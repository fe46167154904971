"""A form whose button is pressed twice."""

import pytest
from playwright.sync_api import expect

from tests.console.browser.conftest import NewPage
from tests.console.browser.filled import Shown
from tests.console.browser.filled import postgres_store as postgres_store
from tests.console.browser.filled import shown as shown

pytestmark = pytest.mark.broker

_AGAIN = """() => addEventListener("submit", (event) => {
  const isFirst = !sessionStorage.noted;
  const what = event.defaultPrevented ? "held " : "sent ";
  sessionStorage.noted = (sessionStorage.noted ?? "") + what;
  if (isFirst) setTimeout(() => event.target.requestSubmit());
})"""
"""Sends a form once more as it is sent, and notes what became of both."""


def test_a_form_is_sent_once(shown: Shown, new_page: NewPage) -> None:
    """The page of the second answer said that the message was gone already."""
    page = new_page()
    shown.open(page, "/stored/scheduler/waiting/change?action=delete&number=1")
    page.get_by_label("Reason").fill("a test")
    page.evaluate(_AGAIN)
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("1 message is deleted.")).to_be_visible()
    assert "sent held " == page.evaluate("sessionStorage.noted")
