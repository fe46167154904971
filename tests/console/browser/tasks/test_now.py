"""An outage, as a person sees it on the page Now and ends it there."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from linear_retry import DeadLetters, Strategy
from linear_retry.kafka.consumer.messages import read
from tests.console.browser.axe import WIDTHS, violations
from tests.console.browser.conftest import NewPage
from tests.console.browser.consuming import Dependency, Line

pytestmark = pytest.mark.broker


@pytest.fixture
def width() -> int:
    """A telephone's screen: on call there is no other."""
    return WIDTHS[-1]


def _stays(page: Page) -> None:
    """Marks the page: a reload would lose it."""
    page.evaluate("document.body.dataset.mark = 'stays'")


def _has_stayed(page: Page) -> None:
    assert "stays" == page.evaluate("document.body.dataset.mark")


def test_an_outage_begins_counts_down_and_is_ended(
    line: Line, new_page: NewPage, width: int, tmp_path: Path
) -> None:
    """All of it on an open page, without a reload; whoever only looks sees the same."""
    line.add_orders(0)
    bank = Dependency()
    with line.console(tmp_path) as at:
        looks, acts = new_page(), new_page(width)
        looks.goto(f"{at}/now")
        expect(looks.get_by_text("No consumer has written to")).to_be_visible()
        _stays(looks)
        with line.consumed(bank.call) as group:
            circuit = looks.locator("article.circuit")
            expect(circuit).to_contain_text(f"{line.orders}[0]@0")
            # As text: the page would be bold otherwise, or do worse.
            expect(circuit).to_contain_text("<b>the bank</b> refuses")
            expect(circuit).to_contain_text("1 failure so far")
            expect(looks.get_by_role("heading", name=group)).to_be_visible()
            expect(looks.get_by_role("cell", name="till-7")).to_be_visible()
            _counts_down(looks)
            line.add_orders(0, 0)
            expect(looks.get_by_text("lag 3")).to_be_visible()
            acts.goto(f"{at}/now")
            bank.is_down = False
            _retry(acts, f"{line.orders}[0]@0")
            for page in (looks, acts):
                expect(page.get_by_text("no circuit is open")).to_be_visible()
                expect(page.get_by_text("lag 0")).to_be_visible()
            _has_stayed(looks)


def _counts_down(page: Page) -> None:
    due = page.locator("time.due")
    before = due.inner_text()
    assert before.startswith("in ")
    expect(due).not_to_have_text(before)


def _retry(page: Page, message: str) -> None:
    """Orders it by keyboard alone, and reads what came of it."""
    page.get_by_role("link", name=f"Retry now {message}").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Retry now")).to_be_visible()
    page.keyboard.type("the bank says that it is back")
    page.keyboard.press("Enter")
    note = page.locator(".note").filter(has_text="retry now")
    expect(note).to_contain_text("local")
    expect(note).to_contain_text(": the bank says that it is back")


@pytest.mark.parametrize("what", ["Retry all now", "Give up all"])
def test_all_circuits_of_a_group_are_ended_at_once(
    line: Line, page: Page, tmp_path: Path, what: str
) -> None:
    """One order with one reason for two messages: both are done, or both are dead letters."""
    line.add_orders(0, 1)
    bank = Dependency()
    with line.console(tmp_path) as at, line.consumed(bank.call) as group:
        page.goto(f"{at}/now")
        expect(page.locator("article.circuit")).to_have_count(2)
        bank.is_down = what == "Give up all"
        page.get_by_role("link", name=what).click()
        _order(page)
        expect(page.get_by_text("no circuit is open")).to_be_visible()
    assert (2 if bank.is_down else 0) == len(line.kafka.read(line.letters))
    assert {0: 1, 1: 1} == line.kafka.committed(group, line.orders)


def _order(page: Page) -> None:
    """Gives a reason, and sends the order."""
    page.get_by_label("Reason").fill("the bank is back, or closed for good")
    page.keyboard.press("Enter")


def test_one_message_is_given_up_and_the_last_attempt_is_asked_again(
    line: Line, page: Page, tmp_path: Path
) -> None:
    """Neither is done before it is confirmed; each leaves the other as it is."""
    line.add_orders(0, 1)
    bank = Dependency()
    options: dict[str, Any] = {"strategy": Strategy(["1h"])}
    with line.console(tmp_path) as at, line.consumed(bank.call, **options) as group:
        page.goto(f"{at}/now")
        circuits = page.locator("article.circuit")
        expect(circuits).to_have_count(2)
        page.get_by_role("link", name=f"Give up {line.orders}[0]@0").click()
        expect(page.get_by_text("This message goes to the dead letters now")).to_be_visible()
        assert [] == line.kafka.read(line.letters)
        _order(page)
        expect(circuits).to_have_count(1)
        assert [0] == _given_up(line)
        page.get_by_role("link", name=f"Retry now {line.orders}[1]@0").click()
        _order(page)
        expect(page.get_by_text("The next attempt is the last")).to_be_visible()
        assert [] == violations(page)
        assert [0] == _given_up(line)
        page.get_by_role("button", name="Attempt it for the last time").click()
        expect(page.get_by_text("no circuit is open")).to_be_visible()
    assert [0, 1] == _given_up(line)
    assert {0: 1, 1: 1} == line.kafka.committed(group, line.orders)


def _given_up(line: Line) -> list[int]:
    """The partitions that the dead letters came from, in their order."""
    found = map(read, line.kafka.read(line.letters))
    return [int(dict(each.headers)["retry-original-partition"] or b"") for each in found]


def test_the_limit_of_dead_letters_is_lifted(line: Line, page: Page, tmp_path: Path) -> None:
    """The page says that the limit holds the message, and why it was lifted is asked for."""
    line.add_orders(0, 0, 0)
    options: dict[str, Any] = {
        "strategy": Strategy([]),
        "dead_letters": DeadLetters(line.letters, limit=1, hold="1h"),
    }
    with line.console(tmp_path) as at, line.consumed(Dependency().call, **options):
        page.goto(f"{at}/now")
        expect(page.get_by_text("1 message held by the limit")).to_be_visible()
        circuit = page.locator("article.circuit")
        expect(circuit).to_contain_text("held by the limit")
        expect(circuit).to_contain_text(f"{line.orders}[0]@1")
        assert [] == violations(page)
        assert 1 == len(line.kafka.read(line.letters))
        page.get_by_role("link", name="Lift the limit").click()
        page.get_by_label("For at most so many").fill("5")
        page.get_by_role("combobox", name="Member").select_option(index=1)
        _order(page)
        expect(page.get_by_text("no circuit is open")).to_be_visible()
    assert 3 == len(line.kafka.read(line.letters))
