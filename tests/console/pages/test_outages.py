"""The page of outages draws them, and has them in a table beside the drawing."""

from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from linear_retry import events as e
from linear_retry.console.app import create_app
from linear_retry.console.frame.services import Services
from linear_retry.console.state.settings import Settings
from linear_retry.journal.entry import Entry
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from linear_retry.retry.clock import now_ms
from linear_retry.scope import Scope
from linear_retry.web import Access, serve
from tests.console.conftest import address
from tests.journal.journal_story import Life, opened, outage, write
from tests.kafka_operations import wait_until

_HOSTILE = "<script>&x"
_REPORT = "https://reports.example/retries.html"


def _outage(group: str, ago_ms: int, length_ms: int) -> Iterator[Entry]:
    life = Life("pod-1", f"{group}-{ago_ms}", group)
    began_ms = now_ms() - ago_ms
    yield life.says(began_ms, opened(("orders", 0), 7, began_ms + 5000))
    closed = e.CircuitClosed(Scope(), "dead-lettered", length_ms / 1000)
    yield life.says(began_ms + length_ms, closed)


@pytest.fixture
def client(settings: Settings) -> Iterator[httpx.Client]:
    """A console with two outages of two groups this week, and one before."""
    hour_ms = 3_600_000
    entries = [
        *_outage("billing", 200 * hour_ms, 1000),
        *_outage("billing", 50 * hour_ms, hour_ms),
        *_outage(_HOSTILE, 2 * hour_ms, 90_000),
    ]
    with EmbeddedKafka() as kafka:
        kafka.create_topic(settings.journal)
        write(kafka, settings.journal, entries)
        brokers = {"bootstrap.servers": kafka.bootstrap}
        with (
            Services(replace(settings, kafka=brokers, report=_REPORT), Access()) as services,
            serve(create_app(services), services.access, 0) as server,
            httpx.Client(base_url=address(server)) as client,
        ):
            wait_until(lambda: services.live.hub.newest.is_complete, "the journal is read")
            yield client


def test_the_last_week(client: httpx.Client) -> None:
    """Each outage as a bar with a title, and as a row; names are texts."""
    page = client.get("/outages").text
    assert "2 outages in the last 7 days, 1h1m in all." in page
    assert f'<a href="{_REPORT}">the report</a>' in page
    assert 2 == page.count('<rect class="outage given-up" x=')
    assert "open for 1m30s: messages were given up</title>" in page
    assert "&lt;script&gt;&amp;x" in page
    assert "group=%3Cscript%3E%26x" in page


def test_another_time_and_one_group(client: httpx.Client) -> None:
    """A time without any says so; the choice stays in the form."""
    assert "3 outages in the last 30 days" in client.get("/outages?days=30").text
    assert "2 outages in" in client.get("/outages?days=30&group=billing").text
    assert "No circuit was open" in client.get("/outages?group=other").text
    assert 422 == client.get("/outages?days=0").status_code


def test_the_journal_says_what_is_open_now(settings: Settings) -> None:
    """Until brokers answer, it says that they do not."""
    with EmbeddedKafka() as kafka:
        kafka.create_topic(settings.journal)
        write(kafka, settings.journal, outage(now_ms()))
        settings = replace(settings, kafka={"bootstrap.servers": kafka.bootstrap})
        with (
            Services(settings, Access()) as services,
            serve(create_app(services), services.access, 0) as server,
            httpx.Client(base_url=address(server)) as client,
        ):
            wait_until(lambda: bool(services.live.hub.newest.views), "the journal is read")
            page = client.get("/outages").text
    assert 'class="badge bad">open now' in page
    assert "1 outage in the last 7 days" in page
    assert "cannot be read since" not in page
