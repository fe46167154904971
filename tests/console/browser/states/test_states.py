"""What is seldom seen can be read too: axe finds nothing on it, wide and narrow, light and dark."""

import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from linear_retry.console.jobs.job import Action
from linear_retry.console.state.settings import Settings
from tests.console.browser.axe import violations
from tests.console.browser.conftest import NewPage
from tests.console.browser.process import ConsoleProcess, running
from tests.console.browser.serving import serving
from tests.dlq.scene import Scene
from tests.kafka_operations import wait_until

pytestmark = pytest.mark.broker


def _settings(directory: Path, bootstrap: str) -> Settings:
    return Settings(
        kafka={"bootstrap.servers": bootstrap},
        state=directory,
        journal="journal",
        control="control",
        dead_letters=("orders.dlq",),
    )


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a broker that takes connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_nothing_is_indexed_yet(silent: str, new_page: NewPage, tmp_path: Path) -> None:
    """Before the brokers have answered, an empty list is not called one."""
    page = new_page()
    with serving(_settings(tmp_path, silent)) as at:
        page.goto(f"{at}/letters")
        expect(page.get_by_text("not indexed yet")).to_be_visible()
        assert [] == violations(page)
        page.goto(f"{at}/letters/orders.dlq")
        expect(page.get_by_text("the brokers have not answered")).to_be_visible()
        expect(page.get_by_text("No letter is indexed yet.")).to_be_visible()
        assert [] == violations(page)


_SLOWLY = {"fetch.message.max.bytes": 1, "fetch.min.bytes": 10**7, "fetch.wait.max.ms": 1_000}
"""A batch a second."""
_BATCHES = 20
"""So many that a page on a busy machine is read again before all are there."""


def test_a_part_is_indexed(given: Scene, new_page: NewPage, tmp_path: Path) -> None:
    """The pages say how much, and that letters may lack; they go on until all are there."""
    for number in range(_BATCHES):
        given.add_letters([given.letter(0, number)])
    settings = _settings(tmp_path, given.kafka.bootstrap)
    slow = replace(settings, kafka=given.config | _SLOWLY, dead_letters=(given.letters,))
    page = new_page()
    with serving(slow) as at:
        page.goto(f"{at}/letters/{given.letters}")
        part = page.get_by_text("Not all is indexed yet: ")
        wait_until(lambda: page.reload() and part.is_visible(), "a part is indexed")
        expect(part).to_contain_text(f"of {_BATCHES} records")
        page.goto(f"{at}/letters")
        expect(page.get_by_text(re.compile(r"^\d+ % indexed$"))).to_be_visible()
        assert [] == violations(page)
        expect(page.get_by_text("indexed", exact=True)).to_be_visible()
        expect(page.get_by_role("row", name=given.letters)).to_contain_text(str(_BATCHES))


def test_each_state_of_a_job(console: ConsoleProcess, new_page: NewPage) -> None:
    """Running, interrupted by a kill, failed, and done."""
    given, page = console.given, new_page()
    given.add_letters([given.letter(0, number) for number in range(9)])
    _plan(page, console, Action.REPLAY)
    page.get_by_label("Letters a second").fill("0.1")
    _start(page)
    expect(page.get_by_text("of 9 letters")).to_be_visible()
    assert [] == violations(page)
    running = page.url
    page.goto("about:blank")
    console.kill()
    console.start()
    page.goto(running)
    expect(page.get_by_text("interrupted")).to_be_visible()
    assert [] == violations(page)
    _plan(page, console, Action.RESOLVE)
    _start(page)
    expect(page.get_by_text("letters resolved")).to_be_visible()
    assert [] == violations(page)
    page.goto(running)
    given.kafka.delete_topic(given.letters)
    _start(page)
    expect(page.locator(".badge", has_text="failed")).to_be_visible()
    assert [] == violations(page)
    page.goto(f"{console.url}/jobs")
    assert [] == violations(page)


def _plan(page: Page, console: ConsoleProcess, action: Action) -> None:
    page.goto(f"{console.url}/jobs/new?topic={console.given.letters}&action={action}")
    page.get_by_role("button", name="Plan it").click()
    expect(page.get_by_label("Reason")).to_be_visible()


def _start(page: Page) -> None:
    page.get_by_label("Reason").fill("a test")
    page.get_by_label("Reason").press("Enter")


def test_what_is_decoded_and_edited(given: Scene, new_page: NewPage, tmp_path: Path) -> None:
    """A value that cannot be decoded, the form of its copy, and what differs in that."""
    given.add_letters([given.letter(0, 1, value=b"\0\0\0\0\7avro")])
    page = new_page()
    with running(given, tmp_path, "--schema-registry", "http://127.0.0.1:1") as console:
        page.goto(f"{console.url}/letters/{given.letters}/0/0")
        expect(page.get_by_text("as schema registry (cannot be decoded)")).to_be_visible()
        assert [] == violations(page)
        page.get_by_role("link", name="Edit and forward").click()
        expect(page.get_by_role("button", name="Compare")).to_be_visible()
        assert [] == violations(page)
        page.get_by_role("textbox", name="Key", exact=True).fill("other")
        page.get_by_role("button", name="Compare").click()
        expect(page.get_by_role("heading", name="What changes")).to_be_visible()
        assert [] == violations(page)
