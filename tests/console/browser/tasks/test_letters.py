"""Whoever is on call finds dead letters in a browser, whatever they hold, and replays an error."""

from dataclasses import replace

import httpx
import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page, expect

from linear_retry.dlq import Filter
from linear_retry.records.text import ErrorText
from tests.console.browser.process import ConsoleProcess
from tests.dlq.scene import Scene
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker

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
        text = httpx.get(f"{console.url}/letters/{console.given.letters}", timeout=PATIENCE_S).text
        return f"{letters} open" in text and ">indexed<" in text

    wait_until(is_indexed, "all is indexed")


def test_letters_are_found_by_clicks_and_keys(
    given: Scene, console: ConsoleProcess, page: Page
) -> None:
    """From the topics to an error, back, to the next page, and to texts, which stay texts."""
    _add_letters(given)
    _wait_until_indexed(console, 90)
    page.goto(console.url)
    page.get_by_role("link", name="Dead letters").click()
    row = page.get_by_role("row", name=given.letters)
    expect(row).to_contain_text("90")
    row.get_by_role("link").click()
    expect(page.get_by_role("heading", name="90 letters")).to_be_visible()
    page.get_by_role("link", name="ValueError", exact=True).click()
    expect(page.get_by_role("heading", name="15 letters")).to_be_visible()
    page.get_by_role("link", name="All errors").click()
    page.get_by_role("link", name="Next 50").click()
    expect(page.get_by_role("heading", name="90 letters, continued")).to_be_visible()
    page.get_by_label("Text in the error").fill("amount in order 10")
    page.get_by_label("State").select_option("all")
    page.get_by_label("Text in the error").press("Enter")
    expect(page.get_by_role("heading", name="1 letter")).to_be_visible()
    page.get_by_text("Key, header, id, time").click()
    page.get_by_label("Key", exact=True).fill(_HTML)
    page.get_by_label("Text in the error").fill(_HTML)
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("link", name=_HTML, exact=True)).to_be_visible()
    assert "owned" != page.title()


def test_letters_are_chosen_by_header_and_by_what_they_are_not(
    given: Scene, console: ConsoleProcess, page: Page
) -> None:
    """And those without a key; what was found is replayed, and no other."""
    _add_letters(given)
    given.add_letters([given.letter(1, 0, key=None), given.letter(1, 1, headers=(("of", b"="),))])
    _wait_until_indexed(console, 92)
    page.goto(f"{console.url}/letters/{given.letters}")
    page.get_by_role("row", name="ValueError").get_by_role("link", name="leave out").click()
    expect(page.get_by_role("heading", name="77 letters")).to_be_visible()
    page.get_by_label("Header").fill("of==")
    page.get_by_label("Header").press("Enter")
    expect(page.get_by_role("row").filter(has_text=f"{given.source}[1]@1")).to_be_visible()
    page.get_by_label("Header").fill("")
    page.get_by_label("without a key").check()
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("link", name="Replay these").click()
    expect(page.get_by_role("heading", name="1 open letter")).to_be_visible()
    page.get_by_role("button", name="Plan it").click()
    page.get_by_label("Reason").fill("fixed")
    page.get_by_role("button", name="Send 1 letter").click()
    expect(page.get_by_text("done", exact=True)).to_be_visible()
    assert {0: 10, 1: 1} == {number: len(found) for number, found in given.arrived().items()}
    page.goto(f"{console.url}/letters/{given.letters}?not-origin={given.source}")
    expect(page.get_by_label("Not from")).to_have_value(given.source)
    expect(page.get_by_text("No letter matches")).to_be_visible()


def test_the_replayed_letters_of_an_error_are_reopened(
    given: Scene, console: ConsoleProcess, page: Page
) -> None:
    """After a fix that was none: they are open once more, and those of other errors are not."""
    _add_letters(given)
    _wait_until_indexed(console, 90)
    page.goto(f"{console.url}/letters/{given.letters}")
    page.get_by_label("State").select_option("replayed or resolved")
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("link", name="ConnectionError", exact=True).click()
    page.get_by_role("link", name="Reopen these").click()
    expect(page.get_by_role("heading", name="7 replayed or resolved letters")).to_be_visible()
    page.get_by_role("button", name="Plan it").click()
    page.get_by_label("Reason").fill("it was no fix")
    page.get_by_role("button", name="Reopen 7 letters").click()
    expect(page.get_by_text("7 letters reopened")).to_be_visible()
    others = (2, 4, 8)
    states = ["replayed" if number in others else "open" for number in range(10)]
    assert states == given.states()[:10]


def test_the_letters_of_an_error_are_replayed_and_no_other(
    given: Scene, console: ConsoleProcess, page: Page
) -> None:
    """Those that were counted: one that comes before the plan stays open."""
    _add_letters(given)
    _wait_until_indexed(console, 90)
    page.goto(f"{console.url}/letters/{given.letters}")
    page.get_by_role("link", name="ValueError", exact=True).click()
    page.get_by_role("link", name="Replay these").click()
    expect(page.get_by_role("heading", name="15 open letters")).to_be_visible()
    late = replace(
        given.letter(0, 999), error=ErrorText("ValueError", "no amount in order 9", None)
    )
    given.add_letters([late])
    page.get_by_role("button", name="Plan it").click()
    older = "70 older open letters of the same keys are not among them"
    expect(page.get_by_text(older)).to_be_visible()
    page.get_by_label("Reason").fill("fixed")
    page.get_by_role("button", name="Send 15 letters").click()
    expect(page.get_by_text("done", exact=True)).to_be_visible()
    assert 25 == given.states().count("replayed")


def test_hostile_letters_are_listed_as_text(
    given: Scene, console: ConsoleProcess, page: Page
) -> None:
    """Bytes that are not UTF-8, a terminal's commands, five megabytes, texts without a space.

    The large one is opened too, and downloaded whole.
    """
    given.kafka.set_topic(given.letters, {"max.message.bytes": "10000000"})
    error = ErrorText("E" * 2_000, "m" * 20_000, "s" * 50_000)
    large = replace(given.letter(0, 2, key=b"k" * 20_000, value=b"v" * 5_000_000), error=error)
    producer = Producer(given.kafka.client_settings(**{"message.max.bytes": 10_000_000}))
    producer.produce(given.letters, large.value, large.key, 0, headers=[*large.headers()])
    assert 0 == producer.flush(PATIENCE_S)
    given.add_letters([replace(given.letter(0, 1, key=b"\xff\x00<i>"), error=_ERRORS[2])])
    given.write(("\u202ename", b"\xff"), partition=1, value=None)
    _wait_until_indexed(console, 3)
    page.goto(f"{console.url}/letters/{given.letters}")
    expect(page.get_by_text("0xff003c693e")).to_be_visible()
    expect(page.get_by_text("4.9 MiB")).to_be_visible()
    expect(page.get_by_role("heading", name="3 letters")).to_be_visible()
    page.get_by_role("row").filter(has_text="4.9 MiB").get_by_role("link").click()
    expect(page.get_by_text("Only the beginning is shown").first).to_be_visible()
    value = page.locator("section", has=page.get_by_role("heading", name="Value", exact=True))
    with page.expect_download() as download:
        value.get_by_role("link", name="Download").first.click()
    assert large.value == download.value.path().read_bytes()


def test_letters_are_found_by_group_topic_and_time(
    given: Scene, console: ConsoleProcess, page: Page
) -> None:
    """Each filter alone; what it finds is exported, and nothing else with it."""
    first, second = given.letter(0, 1), given.letter(0, 2)
    given.add_letters([first])
    given.add_letters([replace(second, group_id="stock", destination="parcels")])
    _wait_until_indexed(console, 2)
    page.goto(f"{console.url}/letters/{given.letters}")
    for name, value in (("Group", "stock"), ("Topic", "parcels")):
        page.get_by_role("combobox", name=name).select_option(value)
        page.get_by_role("button", name="Filter").click()
        expect(page.get_by_role("heading", name="1 letter")).to_be_visible()
        expect(page.get_by_role("row").filter(has_text="parcels[0]@2")).to_be_visible()
        with page.expect_download() as download:
            page.get_by_role("link", name="Export these").click()
        [line] = download.value.path().read_text("utf-8").splitlines()
        assert "parcels" in line
        page.get_by_role("link", name="Clear").click()
    page.get_by_text("Key, header, id, time").click()
    for field, count in (("Since, UTC", "2 letters"), ("Until, UTC", "0 letters")):
        page.get_by_label(field).fill("2026-01-01T00:00")
        page.get_by_label(field).press("Enter")
        expect(page.get_by_role("heading", name=count)).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Export all").click()
    assert 2 == len(download.value.path().read_text("utf-8").splitlines())
