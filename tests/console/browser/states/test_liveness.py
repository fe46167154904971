"""A group whose member was killed, on the page Now."""

from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition
from playwright.sync_api import Page, expect

from linear_retry import events as e
from linear_retry.journal.entry import encode
from linear_retry.retry.clock import now_ms
from tests.console.browser.axe import violations
from tests.console.browser.consuming import Dependency, Line
from tests.journal.journal_story import Life

pytestmark = pytest.mark.broker


def test_a_dead_group_is_on_top(line: Line, page: Page, tmp_path: Path) -> None:
    """`kill -9` of its only member, 3 waiting: "closed", green, below the rest, for ever."""
    dead, bank = f"zz-{uuid4().hex[:8]}", Dependency()
    bank.is_down = False
    line.add_orders(0, 0, 0, 1)
    consumer = Consumer(line.kafka.client_settings() | {"group.id": dead})
    places = [TopicPartition(line.orders, number, 0) for number in (0, 1)]
    places[0].offset = 1
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()
    entry = Life("pod-1", group=dead).says(now_ms(), e.Assigned(((line.orders, 0),)))
    line.kafka.produce(line.journal, [(0, entry.key, encode(entry), ())])
    with line.console(tmp_path) as at, line.consumed(bank.call) as alive:
        page.goto(f"{at}/now")
        first, second = page.locator(".group").first, page.locator(".group").nth(1)
        expect(first).to_contain_text("no live member, 3 waiting")
        expect(first).to_contain_text(dead)
        expect(second).to_contain_text(alive)
        expect(second.locator(".badge.good").first).to_have_text("closed")
        expect(first.locator(".badge.good")).to_have_count(0)
        expect(page.locator("#summary")).to_contain_text("1 group has no live member")
        assert [] == violations(page)
