"""A person replays letters, and the page of the job says what became of them."""

import pytest
from confluent_kafka import Consumer, TopicPartition
from playwright.sync_api import Page, expect

from tests.console.browser.axe import violations
from tests.console.browser.process import ConsoleProcess
from tests.dlq.scene import Scene

pytestmark = pytest.mark.broker


def test_sent_letters_that_are_dead_again(
    given: Scene, console: ConsoleProcess, page: Page
) -> None:
    """ "Done, 3 letters sent", and a second later all were dead again: nothing said so."""
    given.add_letters([given.letter(0, n) for n in range(3)])
    page.goto(f"{console.url}/jobs/new?topic={given.letters}&action=replay")
    page.locator("main form button").first.click()
    page.get_by_label("Reason, for the audit").fill("the bank is back")
    page.get_by_role("button", name="Send 3 letters").click()
    outcome = page.locator("#outcome")
    expect(outcome).to_contain_text("3 not read yet")
    expect(outcome).to_contain_text("0 handled")
    given.add_letters([given.letter(0, 1, 2)])
    consumer = Consumer(given.kafka.client_settings(**{"group.id": "billing"}))
    consumer.commit(offsets=[TopicPartition(given.source, 0, 2)], asynchronous=False)
    consumer.close()
    expect(outcome).to_contain_text("1 came back")
    expect(outcome).to_contain_text("1 not read yet")
    expect(outcome).to_contain_text("1 handled")
    assert [] == violations(page)
    outcome.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"{given.letters}[0]@3")
    page.goto(f"{console.url}/letters/{given.letters}/0/1")
    expect(page.get_by_text("It came back: generation 2 is open.")).to_be_visible()
    page.goto(f"{console.url}/letters/{given.letters}/0/0")
    expect(page.get_by_text("It has not come back")).to_be_visible()
