"""A form that is sent twice by one hand."""

import pytest
from playwright.sync_api import expect

from linear_retry.store import audit
from tests.console.browser.conftest import NewPage
from tests.console.browser.filled import Shown
from tests.console.browser.filled import postgres_store as postgres_store
from tests.console.browser.filled import shown as shown

pytestmark = pytest.mark.broker


def test_a_double_click_sends_a_form_once(shown: Shown, new_page: NewPage) -> None:
    """The page of the second answer said that the message was gone already."""
    page = new_page()
    shown.open(page, "/stored/scheduler/waiting/change?action=delete&number=1")
    page.get_by_label("Reason").fill("a test")
    page.get_by_role("button", name="Delete").dblclick()
    expect(page.get_by_text("1 message is deleted.")).to_be_visible()
    with shown.store.reading() as connection:
        assert [1] == [each.count for each in audit.read(connection, limit=9)]
