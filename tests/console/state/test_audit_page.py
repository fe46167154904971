"""The page of the audit shows every change, and gives it away as files."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from linear_retry.console.app import create_app
from linear_retry.console.frame.services import Services
from linear_retry.console.state import all_changes
from linear_retry.console.state.settings import Settings
from linear_retry.store import audit
from linear_retry.store.database import Database
from linear_retry.web import Access, serve
from tests.console.conftest import address, signed_in
from tests.console.recording import record
from tests.scheduler.http.conftest import ACCESS


@pytest.fixture
def viewer(settings: Settings, database: Database) -> Iterator[httpx.Client]:
    """Vic, who sees a console with 120 changes of its own and one of its store."""
    with (
        Services(replace(settings, store=database), ACCESS) as services,
        serve(create_app(services), services.access, 0) as server,
        signed_in(server, "vic") as client,
    ):
        for number in range(120):
            record(services.audit, "ann", "replay", f"=cmd|{number}", why="back", outcome="sent")
        about = {"ids": [7], "comment": "<b>holiday</b>"}
        with database.begin() as connection:
            audit.write(
                database, connection, actor="bob", action="postpone", count=1, details=about
            )
        yield client


def test_who_and_what(viewer: httpx.Client) -> None:
    """The latest first, on pages; texts are texts."""
    first = viewer.get("/audit").text
    assert (101, True) == (first.count("<tr>"), "&lt;b&gt;holiday" in first)
    link = first.partition('href="/audit?')[2].partition('"')[0].replace("&amp;", "&")
    assert 23 == viewer.get(f"/audit?{link}").text.count("<tr>")  # the first is Vic's sign-in
    assert 2 == viewer.get("/audit?who=BOB&what=holi").text.count("<tr>")
    assert "Nothing matches." in viewer.get("/audit?who=eve").text
    assert 404 == viewer.get("/audit?console=x").status_code


def test_a_long_search_says_that_it_is_not_over(
    viewer: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ "Nothing matches" would be wrong while older changes were not looked at."""
    monkeypatch.setattr(all_changes, "_SEARCHED", 50)
    address, pages = "/audit?what=cmd|3", list[str]()
    while address:
        pages.append(viewer.get(address).text)
        address = pages[-1].partition('href="/audit?')[2].partition('"')[0].replace("&amp;", "&")
        address = address and f"/audit?{address}"
    assert ["Nothing matches so far; there are older changes." in each for each in pages] == [
        *(True, False, False),
    ]
    assert 11 == sum(
        "=cmd|3" in line for page in pages for line in page.splitlines() if "Subject" in line
    )
    rows = list(csv.DictReader(io.StringIO(viewer.get("/audit.csv?what=cmd|3").text)))
    assert 11 == len(rows)


def test_its_files_have_every_change(viewer: httpx.Client) -> None:
    """Of the same search, and nothing that a spreadsheet would run."""
    rows = list(csv.DictReader(io.StringIO(viewer.get("/audit.csv").text)))
    assert (122, "bob", "sign in") == (len(rows), rows[0]["actor"], rows[-1]["action"])
    assert "'=cmd|119" == rows[1]["subject"]
    lines = viewer.get("/audit.json?who=ann").text.splitlines()
    assert (120, "=cmd|119") == (len(lines), json.loads(lines[0])["subject"])
    assert 422 == viewer.get("/audit.xml").status_code


def test_before_the_first_change(settings: Settings) -> None:
    """It says so."""
    with (
        Services(settings, Access()) as services,
        serve(create_app(services), services.access, 0) as server,
        httpx.Client(base_url=address(server)) as client,
    ):
        assert "Nobody has changed anything yet." in client.get("/audit").text


def test_a_store_that_is_away_hides_no_change_of_the_console(settings: Settings) -> None:
    """The page was an error, its own changes included; a file would be without a part."""
    store = Database("postgresql://nobody@localhost:1/none")
    with (
        Services(replace(settings, store=store), ACCESS) as services,
        serve(create_app(services), services.access, 0) as server,
        signed_in(server, "vic") as client,
    ):
        record(services.audit, "ann", "replay", "orders.dlq", why="back", outcome="sent")
        page = client.get("/audit")
        assert 503 == client.get("/audit.csv").status_code
    assert (200, 3) == (page.status_code, page.text.count("<tr>"))
    assert "The changes of the store are not among these" in page.text
