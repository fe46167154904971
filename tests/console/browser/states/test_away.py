"""The broker is killed while pages are open, and comes back."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from linear_retry.console.state.settings import Settings
from tests.console.browser.axe import WIDTHS, violations
from tests.console.browser.conftest import NewPage
from tests.console.browser.consuming import Dependency, Line
from tests.console.browser.serving import serving
from tests.dlq.scene import Scene
from tests.kafka_operations import wait_until
from tests.real_kafka import RealKafka

pytestmark = pytest.mark.broker


@contextmanager
def _console(line: Line, given: Scene, directory: Path) -> Iterator[str]:
    """Over a consumer with an open circuit, and twenty letters of another one."""
    for topic in (given.source, given.letters):
        line.kafka.create_topic(topic)
    given.add_letters([given.letter(0, number) for number in range(20)])
    line.add_orders(0)
    settings = Settings(
        kafka=given.config,
        state=directory,
        journal=line.journal,
        control=line.control,
        dead_letters=(given.letters,),
    )
    with serving(settings) as at, line.consumed(Dependency().call):
        yield at


def test_pages_say_that_the_broker_is_away_and_go_on(
    own_kafka: RealKafka, new_page: NewPage, tmp_path: Path
) -> None:
    """Wide and narrow, without a reload they keep what they knew; each letter is sent once.

    The replay amid which the broker went fails after half a minute, and a person continues it.
    """
    line, given = Line.on(own_kafka), Scene(own_kafka, "parcels", "parcels.dlq")
    with _console(line, given, tmp_path) as at:
        (now, letters), jobs = ([new_page(width) for width in WIDTHS] for _ in range(2))
        now.goto(f"{at}/now")
        expect(now.locator("article.circuit")).to_be_visible()
        letters.goto(f"{at}/letters")
        expect(letters.get_by_role("row", name=given.letters)).to_contain_text("20")
        _start_slowly(jobs[0], f"{at}/jobs/new?topic={given.letters}")
        jobs[1].goto(jobs[0].url)
        wait_until(lambda: len(given.kafka.read(given.source)) >= 3, "three are sent")
        own_kafka.kill()
        trouble = now.get_by_text("This is so since")
        expect(trouble).to_contain_text("it is tried again")
        expect(now.locator("article.circuit")).to_be_visible()
        expect(letters.get_by_text("as of 20")).to_be_visible()
        for page in (now, letters, _letters_of(given, new_page(400), at)):
            assert [] == violations(page)
        for page in jobs:
            expect(page.get_by_text("nothing is half-done")).to_be_visible()
        own_kafka.start()
        expect(trouble).to_be_hidden()
        expect(letters.get_by_text("indexed", exact=True)).to_be_visible()
        jobs[0].get_by_role("button", name="Continue with what is left").click()
        for page in jobs:
            page.goto(jobs[0].url)
            expect(page.locator(".badge", has_text="done")).to_be_visible()
    assert {0: [(number, 1) for number in range(20)]} == given.arrived()


def _start_slowly(page: Page, form: str) -> None:
    page.goto(form)
    page.get_by_role("button", name="Plan it").click()
    page.get_by_label("Reason").fill("payments is back")
    page.get_by_label("Letters a second").fill("1")
    page.get_by_role("button", name="Send 20 letters").click()


def _letters_of(given: Scene, page: Page, at: str) -> Page:
    """Opens the letters of the topic while the broker is away."""
    page.goto(f"{at}/letters/{given.letters}")
    expect(page.get_by_text("The topic cannot be read since")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="parcels[0]@19")).to_be_visible()
    return page
