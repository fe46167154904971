"""An outage, as a person sees it on the page Now and ends it there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, Page, expect

from linear_retry import Journal, LinearConsumer, Strategy
from linear_retry.consumer.config.consumer_config import Dependencies
from linear_retry.kafka import Message
from tests.conftest import TopicFactory
from tests.console.browser.serving import serving, settings_of
from tests.living import QuickConsumer, living
from tests.real_kafka import RealKafka

pytestmark = pytest.mark.broker

_MS = 60_000


class _Dependency:
    """Down until it is mended."""

    is_down = True

    def call(self, _: Message) -> None:
        if self.is_down:
            raise ConnectionError("<b>the bank</b> refuses")


@contextmanager
def _consuming(
    kafka: RealKafka,
    topic: str,
    journal: str,
    control: str,
    handler: Callable[[Message], object],
    **more: Any,
) -> Iterator[str]:
    group = f"billing-{uuid4().hex[:8]}"
    made = LinearConsumer(
        kafka.client_settings() | {"group.id": group, "client.id": "till-7"},
        [topic],
        strategy=Strategy(["1h"] * 3),
        transient=ConnectionError,
        on_exhausted="stop",
        on_permanent="stop",
        control=control,
        listeners=[Journal(journal)],
        _dependencies=Dependencies(consumer=QuickConsumer),
        **more,
    )
    with living(made, handler):
        yield group


def _stays(page: Page) -> None:
    """Marks the page: a reload would lose it."""
    page.evaluate("document.body.dataset.mark = 'stays'")


def _has_stayed(page: Page) -> None:
    assert "stays" == page.evaluate("document.body.dataset.mark")


def test_an_outage_begins_counts_down_and_is_ended(
    browser: Browser, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """All of it on an open page, without a reload; whoever only looks sees the same."""
    orders, journal, control = topic(), topic(), topic()
    kafka.produce(orders, [(0, b"key", b"value", ())])
    bank = _Dependency()
    with serving(settings_of(tmp_path, kafka.bootstrap, journal, control)) as at:
        looks, acts = browser.new_page(), browser.new_page()
        looks.goto(f"{at}/now")
        expect(looks.get_by_text("No consumer has written to")).to_be_visible(timeout=_MS)
        _stays(looks)
        with _consuming(kafka, orders, journal, control, bank.call) as group:
            circuit = looks.locator("article.circuit")
            expect(circuit).to_contain_text(f"{orders}[0]@0", timeout=_MS)
            # As text: the page would be bold otherwise, or do worse.
            expect(circuit).to_contain_text("<b>the bank</b> refuses")
            expect(circuit).to_contain_text("1 failure so far")
            expect(looks.get_by_role("heading", name=group)).to_be_visible()
            expect(looks.get_by_role("cell", name="till-7")).to_be_visible()
            _counts_down(looks)
            kafka.produce(orders, [(0, b"key", b"2", ()), (0, b"key", b"3", ())])
            expect(looks.get_by_text("lag 3")).to_be_visible(timeout=_MS)
            acts.goto(f"{at}/now")
            bank.is_down = False
            _retry(acts, f"{orders}[0]@0")
            for page in (looks, acts):
                expect(page.get_by_text("no circuit is open")).to_be_visible(timeout=_MS)
                expect(page.get_by_text("lag 0")).to_be_visible(timeout=_MS)
            _has_stayed(looks)
        looks.close()
        acts.close()


def _counts_down(page: Page) -> None:
    """It does so without moving what is beside it."""
    due, link = page.locator("time.due"), page.get_by_role("link", name="Retry now")
    before, place = due.inner_text(), link.bounding_box()
    assert before.startswith("in ")
    expect(due).not_to_have_text(before, timeout=_MS)
    assert place == link.bounding_box()


def _retry(page: Page, message: str) -> None:
    """Orders it by keyboard alone, and reads what came of it."""
    page.get_by_role("link", name=f"Retry now {message}").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Retry now")).to_be_visible()
    page.keyboard.type("the bank says that it is back")
    page.keyboard.press("Enter")
    note = page.locator(".note").filter(has_text="retry now")
    expect(note).to_contain_text("local", timeout=_MS)
    expect(note).to_contain_text(": the bank says that it is back")


def test_the_broker_is_killed_and_comes_back(
    browser: Browser, own_kafka: RealKafka, tmp_path: Path
) -> None:
    """The page says so, keeps what it knew, and goes on by itself."""
    orders, journal, control = "orders", "journal", "control"
    for name in (orders, journal, control):
        own_kafka.create_topic(name)
    own_kafka.produce(orders, [(0, b"key", b"value", ())])
    bank = _Dependency()
    with (
        serving(settings_of(tmp_path, own_kafka.bootstrap, journal, control)) as at,
        _consuming(own_kafka, orders, journal, control, bank.call),
    ):
        page = browser.new_page()
        page.goto(f"{at}/now")
        expect(page.locator("article.circuit")).to_be_visible(timeout=_MS)
        _stays(page)
        own_kafka.kill()
        trouble = page.get_by_text("This is so since")
        expect(trouble).to_be_visible(timeout=_MS)
        expect(trouble).to_contain_text("it is tried again")
        expect(page.locator("article.circuit")).to_be_visible()
        own_kafka.start()
        expect(trouble).to_be_hidden(timeout=_MS)
        bank.is_down = False
        _retry(page, "orders[0]@0")
        expect(page.get_by_text("no circuit is open")).to_be_visible(timeout=_MS)
        page.close()


@pytest.mark.parametrize("what", ["Retry all now", "Give up all"])
def test_all_circuits_of_a_group_are_ended_at_once(
    browser: Browser, kafka: RealKafka, topic: TopicFactory, tmp_path: Path, what: str
) -> None:
    """One order with one reason for two messages: both are done, or both are dead letters."""
    orders, letters, journal, control = topic(2), topic(), topic(), topic()
    kafka.produce(orders, [(each, b"key", b"value", ()) for each in range(2)])
    bank = _Dependency()
    more = {"scope": "partition", "dead_letters": letters}
    with (
        serving(settings_of(tmp_path, kafka.bootstrap, journal, control)) as at,
        _consuming(kafka, orders, journal, control, bank.call, **more) as group,
    ):
        page = browser.new_page()
        page.goto(f"{at}/now")
        expect(page.locator("article.circuit")).to_have_count(2, timeout=_MS)
        bank.is_down = what == "Give up all"
        page.get_by_role("link", name=what).click()
        page.get_by_label("Reason").fill("the bank is back, or closed for good")
        page.keyboard.press("Enter")
        expect(page.get_by_text("no circuit is open")).to_be_visible(timeout=_MS)
        page.close()
    assert (2 if bank.is_down else 0) == len(kafka.read(letters))
    assert {0: 1, 1: 1} == kafka.committed(group, orders)


@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_is_wider_than_the_screen(
    browser: Browser, kafka: RealKafka, topic: TopicFactory, tmp_path: Path, width: int
) -> None:
    """With an open circuit, and with the page's script, which the policy lets run."""
    orders, journal, control = topic(), topic(), topic()
    kafka.produce(orders, [(0, b"key", b"value", ())])
    with (
        serving(settings_of(tmp_path, kafka.bootstrap, journal, control)) as at,
        _consuming(kafka, orders, journal, control, _Dependency().call),
    ):
        page = browser.new_page(viewport={"width": width, "height": 800})
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(f"{at}/now")
        expect(page.locator("article.circuit")).to_be_visible(timeout=_MS)
        expect(page.locator("time.due")).to_contain_text("in ")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert [] == said
        page.close()
