"""What a person does with many letters, in a real browser."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.console.browser.conftest import NewPage
from tests.console.browser.process import ConsoleProcess
from tests.console.browser.shifts import shifts, watch
from tests.kafka_operations import wait_until

pytestmark = pytest.mark.broker

_SOME_SENT = re.compile(r"^[1-9]\d* of 300 letters$")
_MORE_SENT = re.compile(r"^[1-9]\d+ of 300 letters$")


def _planned(page: Page, console: ConsoleProcess, action: str) -> None:
    page.goto(f"{console.url}/jobs/new?topic={console.given.letters}&action={action}")
    page.get_by_role("button", name="Plan it").click()
    expect(page.get_by_role("heading", name="What it will do")).to_be_visible()


def _started(page: Page, button: str, rate: str = "") -> None:
    page.get_by_label("Reason").fill("payments is back")
    for limit in page.get_by_label("Letters a second").all():
        limit.fill(rate)
    page.get_by_role("button", name=button).click()


def test_letters_are_counted_then_sent_in_order(console: ConsoleProcess, page: Page) -> None:
    """The plan says where to and for whom, the button how many, and the page what was done."""
    given = console.given
    given.add_letters([given.letter(p, n) for p in range(2) for n in (3, 1, 2)])
    _planned(page, console, "replay")
    row = page.get_by_role("row", name=f"{given.source}[1]")
    expect(row).to_contain_text("billing")
    expect(row).to_contain_text("1 to 3")
    expect(page.get_by_text("billing has no members and no committed offsets")).to_be_visible()
    assert [] == given.kafka.read(given.source)
    _started(page, "Send 6 letters")
    expect(page.get_by_text("6 letters sent")).to_be_visible()
    assert {p: [(1, 1), (2, 1), (3, 1)] for p in range(2)} == given.arrived()
    page.get_by_role("link", name="All jobs").click()
    expect(page.get_by_text("payments is back: 6 letters sent")).to_be_visible()


def test_two_browsers_see_one_replay(console: ConsoleProcess, new_page: NewPage) -> None:
    """Both follow it without a reload; one cancels it, and the other one continues it.

    Nothing on their pages is moved by the numbers.
    """
    given = console.given
    given.add_letters([given.letter(0, n) for n in range(300)])
    one, other = new_page(), new_page(400)
    _planned(one, console, "replay")
    other.goto(one.url)
    _started(one, "Send 300 letters", rate="1")
    _started(other, "Send 300 letters")  # too late: it shows the one that runs
    for page in (one, other):
        expect(page.get_by_text(_SOME_SENT)).to_be_visible()
        watch(page)
    for page in (one, other):
        expect(page.get_by_text(_MORE_SENT)).to_be_visible()
        assert [] == shifts(page)
    other.get_by_role("button", name="Cancel").click()
    for page in (one, other):
        expect(page.get_by_text("cancelled by")).to_be_visible()
    _started(one, "Continue with what is left")
    for page in (one, other):
        page.goto(one.url)
        expect(page.get_by_text("no longer open or no longer there")).to_be_visible()
    assert {0: [(n, 1) for n in range(300)]} == given.arrived()


def test_a_killed_server_says_so_and_continues(console: ConsoleProcess, page: Page) -> None:
    """By SIGKILL in the middle of a replay: the page offers the rest; each letter is sent once."""
    given = console.given
    given.add_letters([given.letter(p, n) for p in range(2) for n in range(100)])
    _planned(page, console, "replay")
    _started(page, "Send 200 letters", rate="1")
    wait_until(lambda: len(given.kafka.read(given.source)) >= 5, "five are sent")
    address = page.url
    page.goto("about:blank")  # nothing to complain of while nobody answers
    console.kill()
    assert len(given.kafka.read(given.source)) < 200
    console.start()
    page.goto(address)
    expect(page.get_by_text("the console was stopped while it ran")).to_be_visible()
    _started(page, "Continue with what is left")
    expect(page.locator(".badge", has_text="done")).to_be_visible()
    assert {p: [(n, 1) for n in range(100)] for p in range(2)} == given.arrived()


def test_letters_are_resolved_and_purged(console: ConsoleProcess, page: Page) -> None:
    """Each says what it would do first; a purge cannot be undone, and leaves what is open."""
    given = console.given
    given.add_letters([given.letter(0, n) for n in range(3)])
    _planned(page, console, "resolve")
    _started(page, "Resolve 3 letters")
    expect(page.get_by_text("3 letters resolved")).to_be_visible()
    given.add_letters([given.letter(0, 3)])
    _planned(page, console, "purge")
    expect(page.get_by_text("This cannot be undone")).to_be_visible()
    expect(page.get_by_text("1 letter will be left, 1 of them open")).to_be_visible()
    _started(page, "Delete 3 letters")
    expect(page.get_by_text("3 letters deleted; 1 left")).to_be_visible()
    assert ["open"] == given.states()


def test_only_dead_letters_are_touched(console: ConsoleProcess, new_page: NewPage) -> None:
    """Nobody purges or reads a source topic through an address that they have made up."""
    given = console.given
    given.kafka.produce(given.source, [(0, b"key", b"secret", ())])
    request = new_page().request
    headers = {"Origin": console.url}
    form: dict[str, str | float | bool] = {
        "topic": given.source,
        "action": "purge",
        "everything": "on",
    }
    answers = [
        request.post(f"{console.url}/jobs", form=form, headers=headers),
        request.get(f"{console.url}/letters/{given.source}/0/0"),
        request.get(f"{console.url}/letters/{given.source}/export.jsonl"),
        request.get(f"{console.url}/letters/{given.source}/0/0/value.bin"),
        request.post(f"{console.url}/letters/{given.source}/0/0/resolve", headers=headers),
    ]
    assert [404] * 4 == [answer.status for answer in answers[:-1]]
    assert 422 == answers[-1].status  # it asks for a reason first
    assert 1 == len(given.kafka.read(given.source))
