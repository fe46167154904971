"""People sign in and out, and a viewer reads every page, without a button to change anything."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from linear_retry.retry.clock import now_ms
from tests.console.browser.axe import violations
from tests.console.browser.filled import Shown, filled, some_letters
from tests.console.browser.filled import postgres_store as postgres_store
from tests.dlq.scene import NewScene
from tests.journal.journal_story import outage
from tests.scheduler.http.conftest import ACCESS, PASSWORD

pytestmark = pytest.mark.broker

_HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def shown(
    scene: NewScene, tmp_path_factory: pytest.TempPathFactory, postgres_store: str
) -> Iterator[Shown]:
    """A console with users."""
    given, entries = some_letters(scene), outage(now_ms() - _HOUR_MS)
    directory = tmp_path_factory.mktemp("users")
    with filled(given, directory, postgres_store, entries, ACCESS) as shown:
        yield shown


def _sign_in(page: Page, name: str, password: str = PASSWORD) -> None:
    """By keys alone; the field of the name has the focus."""
    expect(page.get_by_label("Name")).to_be_focused()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type(name)
    page.keyboard.press("Tab")
    page.keyboard.type(password)
    page.keyboard.press("Enter")


def test_an_operator_signs_in_and_out(shown: Shown, page: Page) -> None:
    """She comes to the page that she wanted, and after her nobody does."""
    shown.open(page, shown.letter)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert [] == violations(page)
    _sign_in(page, "ann")
    expect(page.get_by_text("ann (operator)")).to_be_visible()
    expect(page.get_by_role("link", name="Replay it")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_viewer_reads_and_changes_nothing(shown: Shown, page: Page) -> None:
    """Each page is there, without keys and values, and signing out is all that can be sent."""
    shown.open(page, "/")
    _sign_in(page, "vic")
    expect(page.get_by_text("vic (viewer)")).to_be_visible()
    for name in ("Now", "Dead letters", "Jobs", "Stored", "Outages", "Audit"):
        page.get_by_role("link", name=name, exact=True).click()
        page.locator("nav [aria-current]", has_text=name).wait_for()
        _is_a_viewers(page)
    for path, hidden in (
        (f"/letters/{shown.scene.letters}", "Replay these"),
        (shown.letter, "Edit and forward"),
        ("/stored/scheduler/waiting/1", "Send now"),
        ("/stored/scheduler/dead/1", "Send again"),
    ):
        shown.open(page, path)
        _is_a_viewers(page)
        expect(page.get_by_text(hidden)).to_have_count(0)
        expect(page.get_by_text("tenant")).to_have_count(0)
    expect(page.get_by_text("Keys, values and headers are for operators.")).to_be_visible()


def _is_a_viewers(page: Page) -> None:
    assert [] == violations(page)
    forms = page.locator("form[method=post]").evaluate_all("all => all.map(each => each.action)")
    assert ["/logout"] == [form[form.rindex("/") :] for form in forms]
