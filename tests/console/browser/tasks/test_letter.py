"""What a person does with one letter, in a real browser."""

import json
from http import HTTPStatus
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from linear_retry.console.state.audit import Audit
from linear_retry.console.state.state import State
from linear_retry.kafka.consumer.messages import read
from linear_retry.records.dead_letter import FailureInfo, to_dead_letter
from linear_retry.records.record import Record
from linear_retry.records.text import ErrorText
from tests.console.browser.conftest import NewPage
from tests.console.browser.process import ConsoleProcess
from tests.kafka_operations import wait_until

pytestmark = pytest.mark.broker


def _open(page: Page, console: ConsoleProcess, partition: int, offset: int) -> None:
    """Opens a letter's page; again, if a busy broker has not answered the console in time."""

    def is_answered() -> bool:
        url = f"{console.url}/letters/{console.given.letters}/{partition}/{offset}"
        answer = page.goto(url)
        return answer is not None and answer.status != HTTPStatus.SERVICE_UNAVAILABLE

    wait_until(is_answered, "the letter is read")


def test_a_letter_is_edited_and_forwarded(console: ConsoleProcess, page: Page) -> None:
    """She sees what differs before it is sent; the letter is resolved, and the audit has it."""
    given = console.given
    value = b'{\n  "amount": "12,50",\n  "name": "Ann"\n}\n'
    letter = given.letter(1, 7, value=value, headers=(("tenant", b"\xff"),))
    given.add_letters([letter])
    _open(page, console, 1, 0)
    page.get_by_role("link", name="Edit and forward").click()
    typed = page.get_by_role("textbox", name="Value", exact=True).first
    expect(typed).to_have_value(value.decode())
    typed.fill(value.decode().replace("12,50", "12.50"))
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("pre")).to_contain_text('-  "amount": "12,50",\n+  "amount": "12.50",')
    expect(page.get_by_role("heading", name="What changes")).to_have_count(1)
    page.get_by_label("Reason").fill("a comma in the amount")
    page.get_by_role("button", name="Send it").click()
    expect(page.get_by_text("changed: value; the letter is resolved")).to_be_visible()
    expect(page.locator(".badge", has_text="resolved")).to_be_visible()
    [record] = [read(each) for each in given.kafka.read(given.source)]
    assert (1, value.replace(b"12,50", b"12.50")) == (record.partition, record.value)
    headers = dict(record.headers)
    letter_id = letter.retry_id.encode()
    assert (b"\xff", letter_id) == (headers["tenant"], headers["retry-edited-from"])
    assert headers["retry-id"] != letter_id


def test_a_letter_is_resolved_and_reopened_with_a_reason(
    console: ConsoleProcess, page: Page
) -> None:
    """By keyboard alone; the page says who did it and why, and so does the audit."""
    given = console.given
    given.add_letters([given.letter(0, n) for n in range(2)])
    _open(page, console, 0, 1)
    page.get_by_label("Reason").focus()
    page.keyboard.type("refunded by hand")
    page.keyboard.press("Enter")
    expect(page.locator(".badge", has_text="resolved")).to_be_visible()
    expect(page.get_by_text("by local at")).to_contain_text("refunded by hand")
    assert ["open", "resolved"] == given.states()
    page.get_by_label("Reason").fill("not refunded")
    page.get_by_role("button", name="Reopen").click()
    expect(page.locator(".badge", has_text="open")).to_be_visible()
    console.kill()
    state = State(console.directory / "state")
    assert [("reopen", "not refunded"), ("resolve", "refunded by hand")] == [
        (change.action, change.why) for change in Audit(state).read(limit=9)
    ]
    state.close()


_HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202e"


@pytest.mark.parametrize(
    "parts",
    [
        {"key": _HOSTILE.encode(), "value": _HOSTILE.encode()},
        {"key": b"\xff\x00", "value": b"\xfe" * 3000},
        {"key": None, "value": b'{"text": "' + b"x" * 900_000 + b'"}'},
        {"key": b"", "value": None},
        {"value": json.dumps([[["deep"] * 50] * 50]).encode()},
    ],
)
def test_a_hostile_letter_is_only_text(
    console: ConsoleProcess, page: Page, parts: dict[str, Any]
) -> None:
    """HTML, ANSI, bytes that are no text, much of it: nothing runs, and the page stays whole."""
    given = console.given
    parts = {"key": b"key", "headers": ((_HOSTILE, _HOSTILE.encode()), ("n", None))} | parts
    record = Record(given.source, 0, 1, 1_795_000_000_000, **parts)
    error = ErrorText(_HOSTILE, _HOSTILE, f"{_HOSTILE}\n" * 50)
    letter = to_dead_letter(record, FailureInfo("billing", _HOSTILE, 3, 1, 2, "s@1", error))
    given.add_letters([letter], 0)
    _open(page, console, 0, 0)
    expect(page.get_by_role("heading", name="Stack")).to_be_visible()
    for summary in page.locator("summary").all():
        summary.click()
    assert 0 == page.locator("main script, main img").count()
    assert "\x1b" not in page.content()
    if parts["value"]:
        with page.expect_download() as download:
            page.locator("section", has_text="Value").get_by_role(
                "link", name="Download"
            ).first.click()
        assert parts["value"] == download.value.path().read_bytes()


def test_a_letter_that_is_gone_is_said(console: ConsoleProcess, new_page: NewPage) -> None:
    """Retention or a purge has removed it: the page is no blank one."""
    page = new_page()
    answer = page.request.get(f"{console.url}/letters/{console.given.letters}/0/99")
    assert (410, True) == (answer.status, "retention or a purge has removed it" in answer.text())


def test_the_generations_of_a_message_lead_to_each_other(
    console: ConsoleProcess, page: Page
) -> None:
    """What failed again after a replay is seen with what became of it before."""
    given = console.given
    given.add_letters([given.letter(0, 7)])
    given.replay()
    given.add_letters([given.letter(0, 7, generation=2)])
    page.goto(f"{console.url}/letters/{given.letters}/0/1")
    _reload_until(page, page.get_by_role("heading", name="The letters of this message"))
    expect(page.get_by_role("row", name="2, this one")).to_contain_text("open")
    page.get_by_role("row", name="1").get_by_role("link").click()
    _reload_until(page, page.get_by_text("by test at"))
    expect(page.get_by_role("row", name="1, this one")).to_contain_text("replayed")
    expect(page.get_by_text("by test at")).to_contain_text("again")


def test_a_letter_names_the_older_ones_of_its_key(console: ConsoleProcess, page: Page) -> None:
    """Replayed before them, it would break the key's order: they are a click away."""
    given = console.given
    given.add_letters([given.letter(0, number) for number in range(3)])
    page.goto(f"{console.url}/letters/{given.letters}/0/2")
    older = page.get_by_role("link", name="2 older open letters")
    _reload_until(page, older)
    expect(page.get_by_text("of the same key would be handled after this one")).to_be_visible()
    older.click()
    expect(page.get_by_role("heading", name="3 letters")).to_be_visible()


def _reload_until(page: Page, wanted: Locator) -> None:
    """Until what it needs is indexed."""

    def is_there() -> bool:
        page.reload()
        return wanted.is_visible()

    wait_until(is_there, str(wanted))


def test_a_page_that_asks_again_says_when_nobody_answers(
    console: ConsoleProcess, new_page: NewPage
) -> None:
    """And that it is over; what it shows stays meanwhile."""
    given = console.given
    given.add_letters([given.letter(0, 0)])
    page = new_page()
    page.goto(f"{console.url}/letters")
    row, lost = page.get_by_role("row", name=given.letters), page.locator("#lost")
    expect(row).to_be_visible()
    expect(lost).to_be_hidden()
    console.kill()
    expect(lost).to_be_visible()
    expect(row).to_be_visible()
    console.start()
    expect(lost).to_be_hidden()
