"""Every page can be read with a screen reader, at any width, light and dark, and used by keys."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page

from linear_retry.console.jobs.job import Action
from linear_retry.store import messages
from tests import chromium
from tests.console.browser.axe import violations
from tests.console.browser.filled import Shown
from tests.console.browser.filled import postgres_store as postgres_store
from tests.console.browser.filled import shown as shown

pytestmark = pytest.mark.broker

_FORMS = (
    "/stored/scheduler/waiting/change?action=postpone&number=1",
    "/stored/scheduler/dead/change?action=delete&number=1",
    "/stored/scheduler/waiting?destination=none",
    "/stored/scheduler/waiting?since=never",
    "/outages?group=none",
    "/audit?who=nobody",
    "/nothing",
)
_TABS = 300


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page on which nothing raises, and nothing breaks the policy of its contents."""
    page, errors = chromium.new_page(browser), list[str]()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda m: errors.append(m.text) if "Content Security" in m.text else None)
    yield page
    page.close()
    assert [] == errors


def _kind(path: str) -> str:
    """What pages of one template have in common."""
    return re.sub(r"[0-9]+", "N", urlsplit(path).path)


def _links(page: Page) -> list[str]:
    found: list[str] = page.eval_on_selector_all(
        "a[href^='/']:not([href*='.csv']):not([href*='.json']):not([href$='/value']):not([href$='.bin'])",
        "links => links.map(link => link.getAttribute('href'))",
    )
    return found


def test_no_page_breaks_a_rule_of_axe(shown: Shown, page: Page) -> None:
    """All that links lead to, and the forms of changes, at 1280 and 400 px; none is too wide."""
    letter, seen, problems = f"/letters/{shown.scene.letters}/0/0", set[str](), []
    waiting = ["/", *_FORMS, letter, f"{letter}/edit", _job(shown, page)]
    waiting += [f"/jobs/new?topic={shown.scene.letters}&action={each}" for each in Action]
    while waiting:
        path = waiting.pop()
        kind = path if path in _FORMS or "action=" in path else _kind(path)
        if kind in seen:
            continue
        seen.add(kind)
        shown.open(page, path)
        problems += violations(page)
        waiting += _links(page)
    assert [] == problems
    assert {"/now", "/letters", "/jobs", "/stored/outbox/dead", "/outages", "/audit"} <= seen


def _job(shown: Shown, page: Page) -> str:
    """Plans a replay, as a person does; returns the path of its page."""
    shown.open(page, f"/jobs/new?topic={shown.scene.letters}")
    page.locator("main form button").first.click()
    page.wait_for_url("**/jobs/*")
    return urlsplit(page.url).path


def _tab_to(page: Page, selector: str, key: str = "Tab") -> None:
    for _ in range(_TABS):
        page.keyboard.press(key)
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    pytest.fail(f"no {key} leads to {selector}")


@pytest.mark.parametrize(("width", "year"), [(1280, 2040), (400, 2041)])
def test_a_message_is_postponed_by_keys_alone(
    shown: Shown, page: Page, width: int, year: int
) -> None:
    """Found, ticked, and postponed until the time that is typed, with a reason, without a mouse."""
    page.set_viewport_size({"width": width, "height": 900})
    shown.open(page, "/now")
    _tab_to(page, ".skip")
    _tab_to(page, "nav a[href='/stored']")
    page.keyboard.press("Enter")
    page.wait_for_url("**/stored/scheduler/waiting")
    _tab_to(page, "input[name=destination]")
    page.keyboard.type("payments")
    page.keyboard.press("Enter")
    page.wait_for_url("**destination=payments**")
    _tab_to(page, "input[name=number]")
    page.keyboard.press("Space")
    _tab_to(page, "button[value=postpone]", "Shift+Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/change?**")
    _tab_to(page, "input[name=due]")
    page.keyboard.type(f"0102{year}")
    page.keyboard.press("Tab")
    page.keyboard.type("0803AM")
    _tab_to(page, "input[name=reason]")
    page.keyboard.type("bank holiday")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"text=1 message is postponed until {year}-01-02 08:03:00Z.")
    with shown.store.reading() as connection:
        due = {each.destination: each.due_ms for each in messages.waiting(connection, "scheduler")}
    assert datetime(year, 1, 2, 8, 3, tzinfo=UTC).timestamp() * 1000 == due["payments"]
