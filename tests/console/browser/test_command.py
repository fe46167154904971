"""`linear-retry console` with all that it may be given, over the real things."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from linear_retry.journal.entry import encode
from linear_retry.retry.clock import now_ms
from linear_retry.store import messages
from linear_retry.store.database import Database
from tests.console.browser.conftest import NewPage
from tests.console.browser.process import running
from tests.dlq.scene import Scene
from tests.journal.journal_story import outage, recovered
from tests.scheduler.http.conftest import HASH, PASSWORD
from tests.store.contents import new_message

pytestmark = pytest.mark.broker

_HOUR_MS = 3_600_000


def _options(given: Scene, directory: Path, store: str) -> list[str]:
    """Each of them with something of its own to show."""
    journal, control = f"{given.source}.journal", f"{given.source}.control"
    for topic in (journal, control):
        given.kafka.create_topic(topic)
    entries = [*recovered(now_ms() - 48 * _HOUR_MS, "stock"), *outage(now_ms() - _HOUR_MS)]
    given.kafka.produce(journal, ((0, each.key, encode(each), ()) for each in entries))
    database = Database(store)
    with database.begin() as connection:
        messages.add(database, connection, [new_message(destination="parcels", key=b"k-7")])
    database.close()
    (directory / "users").write_text(f"ann:operator:{HASH}\nvic:viewer:{HASH}\n")
    (directory / "users").chmod(0o600)
    options = {
        "journal": journal,
        "since": "7d",
        "control": control,
        "store": store,
        "report": "http://reports.example/page.html",
        "users": str(directory / "users"),
    }
    named = [part for name, value in options.items() for part in (f"--{name}", value)]
    return [*named, "--show-values", "--read-only"]


def test_each_option_is_on_a_page(
    given: Scene, new_page: NewPage, postgres_url: str, tmp_path: Path
) -> None:
    """Signed in as a viewer, who sees values; and as an operator, who may change nothing."""
    given.add_letters([given.letter(0, 1, value=b"a value to see")])
    page = new_page()
    with running(given, tmp_path, *_options(given, tmp_path, postgres_url)) as console:
        page.goto(f"{console.url}/now")
        _sign_in(page, "vic")
        expect(page.get_by_text("read-only")).to_be_visible()
        expect(page.get_by_role("heading", name="billing")).to_be_visible()
        expect(page.get_by_text("2 circuits open")).to_be_visible()
        page.goto(f"{console.url}/letters/{given.letters}/0/0")
        expect(page.get_by_text("a value to see").first).to_be_visible()
        page.goto(f"{console.url}/stored/scheduler/waiting")
        expect(page.get_by_role("row").filter(has_text="k-7")).to_contain_text("parcels")
        page.goto(f"{console.url}/outages")
        expect(page.get_by_role("row").filter(has_text="stock")).to_contain_text("recovered")
        expect(page.get_by_role("link", name="the report")).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        _sign_in(page, "ann")
        page.goto(f"{console.url}/letters/{given.letters}/0/0")
        expect(page.get_by_text("ann (operator)")).to_be_visible()
        expect(page.locator("form[method=post]")).to_have_count(1)
        form = {"Origin": console.url}
        assert 403 == page.request.post(f"{console.url}/jobs", headers=form).status


def _sign_in(page: Page, name: str) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_label("Password").press("Enter")
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
