"""Whoever is on call finds dead letters in a browser, whatever they hold, and replays an error."""

from dataclasses import replace

import httpx
import pytest
from confluent_kafka import Producer
from playwright.sync_api import expect

from linear_retry.dlq import Filter
from linear_retry.records.text import ErrorText
from tests.console.browser.conftest import ConsoleProcess, NewPage
from tests.dlq.scene import Scene
from tests.kafka_operations import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.parametrize("width", [1280, 400])]

_HTML = "<script>document.title='owned'</script><b>"
_ERRORS = (
    ErrorText("ConnectionError", "payments:8080 refused order {}", None),
    ErrorText("ValueError", "no amount in order {}", None),
    ErrorText(_HTML, f"{_HTML} \x1b[31mred {{}}", None),
)


def _add_letters(given: Scene) -> None:
    """A hundred letters of three errors, of which ten are replayed."""
    letters = []
    for number in range(100):
        error = _ERRORS[0 if number % 2 else number % 3]
        error = replace(error, message=str(error.message).format(number))
        letters.append(replace(given.letter(0, number, key=_HTML.encode()), error=error))
    given.add_letters(letters)
    given.replay(Filter(limit=10))


def _wait_until_indexed(console: ConsoleProcess, letters: int) -> None:
    def is_indexed() -> bool:
        text = httpx.get(f"{console.url}/letters/{console.given.letters}", timeout=30).text
        return f"{letters} open" in text and ">indexed<" in text

    wait_until(is_indexed, "all is indexed")


def test_letters_are_found_by_clicks_and_keys(
    given: Scene, console: ConsoleProcess, new_page: NewPage, width: int
) -> None:
    """From the topics to an error, back, to the next page, and to texts, which stay texts."""
    _add_letters(given)
    _wait_until_indexed(console, 90)
    page = new_page(width)
    page.goto(console.url)
    page.get_by_role("link", name="Dead letters").click()
    row = page.get_by_role("row", name=given.letters)
    expect(row).to_contain_text("90")
    row.get_by_role("link").click()
    expect(page.get_by_role("heading", name="90 letters")).to_be_visible()
    page.get_by_role("link", name="ValueError").click()
    expect(page.get_by_role("heading", name="15 letters")).to_be_visible()
    page.get_by_role("link", name="All errors").click()
    page.get_by_role("link", name="Next 50").click()
    expect(page.get_by_role("heading", name="90 letters, continued")).to_be_visible()
    page.get_by_label("Text in the error").fill("amount in order 10")
    page.get_by_label("State").select_option("all")
    page.get_by_label("Text in the error").press("Enter")
    expect(page.get_by_role("heading", name="1 letter")).to_be_visible()
    page.get_by_text("Key, id, time").click()
    page.get_by_label("Key").fill(_HTML)
    page.get_by_label("Text in the error").fill(_HTML)
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("link", name=_HTML)).to_be_visible()
    assert "owned" != page.title()


def test_the_letters_of_an_error_are_replayed_and_no_other(
    given: Scene, console: ConsoleProcess, new_page: NewPage, width: int
) -> None:
    """Those that were counted: one that comes before the plan stays open."""
    _add_letters(given)
    _wait_until_indexed(console, 90)
    page = new_page(width)
    page.goto(f"{console.url}/letters/{given.letters}")
    page.get_by_role("link", name="ValueError").click()
    page.get_by_role("link", name="Replay these").click()
    expect(page.get_by_role("heading", name="15 open letters")).to_be_visible()
    late = replace(
        given.letter(0, 999), error=ErrorText("ValueError", "no amount in order 9", None)
    )
    given.add_letters([late])
    page.get_by_role("button", name="Plan it").click()
    page.get_by_label("Reason").fill("fixed")
    page.get_by_role("button", name="Send 15 letters").click()
    expect(page.get_by_text("done", exact=True)).to_be_visible(timeout=30_000)
    assert 25 == given.states().count("replayed")


def test_hostile_letters_are_listed_as_text(
    given: Scene, console: ConsoleProcess, new_page: NewPage, width: int
) -> None:
    """Bytes that are not UTF-8, a terminal's commands, five megabytes, texts without a space."""
    given.kafka.set_topic(given.letters, {"max.message.bytes": "10000000"})
    error = ErrorText("E" * 2_000, "m" * 20_000, "s" * 50_000)
    large = replace(given.letter(0, 2, key=b"k" * 20_000, value=b"v" * 5_000_000), error=error)
    producer = Producer(given.kafka.client_settings(**{"message.max.bytes": 10_000_000}))
    producer.produce(given.letters, large.value, large.key, 0, headers=[*large.headers()])
    assert 0 == producer.flush(20)
    given.add_letters([replace(given.letter(0, 1, key=b"\xff\x00<i>"), error=_ERRORS[2])])
    given.write(("\u202ename", b"\xff"), partition=1, value=None)
    _wait_until_indexed(console, 3)
    page = new_page(width)
    page.goto(f"{console.url}/letters/{given.letters}")
    expect(page.get_by_text("0xff003c693e")).to_be_visible()
    expect(page.get_by_text("4.9 MiB")).to_be_visible()
    expect(page.get_by_role("heading", name="3 letters")).to_be_visible()
