"""Whoever is on call finds dead letters on a page, whatever they hold."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from linear_retry.console.app import create_app
from linear_retry.console.frame.services import Services
from linear_retry.console.letters.writer import Writer
from linear_retry.console.state.settings import Settings
from linear_retry.dlq import Filter
from linear_retry.web import Access, HttpServer, serve
from tests.console.conftest import address, signed_in
from tests.dlq.conftest import scene as scene
from tests.dlq.scene import NewScene, Scene
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.scheduler.http.conftest import ACCESS

pytestmark = pytest.mark.broker


@contextmanager
def _console(given: Scene, directory: Path, access: Access | None = None) -> Iterator[HttpServer]:
    settings = Settings(
        kafka=given.config, state=directory, journal="journal", dead_letters=(given.letters,)
    )
    with (
        Services(settings, access or Access()) as services,
        serve(create_app(services), services.access, 0) as server,
    ):
        (indexed,) = services.letters.topics()
        wait_until(lambda: indexed.indexer.progress.is_complete, "all is indexed")
        yield server


def test_the_page_says_why_it_is_empty(scene: NewScene, tmp_path: Path) -> None:
    """No letter at all, or none that matches."""
    given = scene()
    path = f"/letters/{given.letters}"
    with _console(given, tmp_path) as server:
        assert "The topic holds no letters" in httpx.get(f"{address(server)}{path}").text
        given.add_letters([given.letter(0, 1)])
        wait_until(lambda: "1 letter" in httpx.get(f"{address(server)}{path}").text, "it is there")
        none = httpx.get(f"{address(server)}{path}?text=nowhere").text
        assert "No letter matches among the open ones" in none
        assert 404 == httpx.get(f"{address(server)}/letters/unknown").status_code
        unreadable = httpx.get(f"{address(server)}{path}?since=x")
    assert 422 == unreadable.status_code
    assert "since is &#39;x&#39;: it must be a time" in unreadable.text


def test_a_page_of_brokers_that_are_away_says_so(local: HttpServer) -> None:
    """In place of the letters, with the address that does not answer."""
    for path in ("/letters", "/letters/orders.dlq"):
        wait_until(
            lambda path=path: "localhost:1" in httpx.get(f"{address(local)}{path}").text,  # type: ignore[misc]  # each its own
            "it says so",
        )
        answer = httpx.get(f"{address(local)}{path}")
        assert 200 == answer.status_code


def test_an_index_that_is_not_kept_up_is_not_shown_as_current(
    scene: NewScene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A letter that the shell had replayed was open on its page, with a button to replay it."""
    given = scene()
    given.add_letters([given.letter(0, n) for n in range(2)])
    path = f"/letters/{given.letters}"

    def fails(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with _console(given, tmp_path) as server:
        monkeypatch.setattr(Writer, "add_resolutions", fails)
        given.replay(Filter(limit=1))
        wait_until(
            lambda: "disk is full" in httpx.get(f"{address(server)}{path}").text, "it cannot go on"
        )
        letter, other, selection = (
            httpx.get(f"{address(server)}{path}/{rest}", timeout=PATIENCE_S).text
            for rest in ("0/0", "0/1", "selection?action=replay")
        )
    assert ">replayed</span>" in letter
    assert "Replay it" not in letter
    assert "Replay it" in other
    assert "so these are the open letters of then" in selection


def test_viewers_see_no_keys(scene: NewScene, tmp_path: Path) -> None:
    """Nor do they learn by a filter which keys there are."""
    given = scene()
    given.add_letters([given.letter(0, 1, key=b"secret")])
    path = f"/letters/{given.letters}"
    with _console(given, tmp_path, ACCESS) as server:
        with signed_in(server, "vic") as viewer:
            assert "secret" not in viewer.get(path).text
            assert 403 == viewer.get(f"{path}?key=secret").status_code
        with signed_in(server, "ann") as operator:
            assert "secret" in operator.get(path).text


def test_a_selection_of_an_index_that_was_built_again_is_refused(
    scene: NewScene, tmp_path: Path
) -> None:
    """Its numbers mean other letters by now."""
    given = scene()
    given.add_letters([given.letter(0, 1)])
    stale = {"action": "replay", "selection": "count=1&epoch=none&last=1"}
    with _console(given, tmp_path) as server:
        path = f"{address(server)}/letters/{given.letters}/selection"
        refused = httpx.post(path, data=stale, headers={"Origin": address(server)})
    assert "select them once more" in refused.text


def test_an_export_is_whole_whoever_else_looks(scene: NewScene, tmp_path: Path) -> None:
    """It was cut off as soon as another thread had a part of it to read; while one of a topic is
    made, the others are told to wait."""
    given = scene()
    given.add_letters([given.letter(0, n) for n in range(300)])
    path = f"/letters/{given.letters}"
    with _console(given, tmp_path) as server, ThreadPoolExecutor(4) as threads:
        address_, refusals = f"{address(server)}{path}/export.jsonl", list[str]()

        def exported() -> str | None:
            answer = httpx.get(address_, timeout=PATIENCE_S)
            if answer.status_code == 200:
                return answer.text
            refusals.append(answer.text)
            return None

        answers = list(threads.map(lambda _: wait_until(exported, "it is sent"), range(4)))
    assert [300] * 4 == [each.count("\n") for each in answers]
    assert all("is being exported: wait until that has ended" in each for each in refusals)


def test_an_export_has_the_letters_of_a_filter(scene: NewScene, tmp_path: Path) -> None:
    """Those that the page shows; or one, or all, in any state."""
    given = scene()
    given.add_letters(
        [given.letter(0, n, reason=("exhausted", "permanent")[n % 2]) for n in range(8)]
    )
    given.replay(Filter(limit=2))
    path = f"/letters/{given.letters}"
    with _console(given, tmp_path) as server:
        lines = [
            httpx.get(f"{address(server)}{path}{rest}", timeout=PATIENCE_S).text.count("\n")
            for rest in ("/export.jsonl?reason=permanent", "/0/3/export.jsonl", "/export.jsonl")
        ]
        shown = httpx.get(f"{address(server)}{path}?reason=permanent", timeout=PATIENCE_S).text
    assert [3, 1, 8] == lines
    assert f"{path}/export.jsonl?reason=permanent&amp;state=open" in shown


def test_a_letter_that_is_gone_was_not_done_before(scene: NewScene, tmp_path: Path) -> None:
    """To resolve it is answered with 410, and leaves nothing in the audit."""
    given = scene()
    given.add_letters([given.letter(0, 1)])
    with _console(given, tmp_path) as server:
        answer = httpx.post(
            f"{address(server)}/letters/{given.letters}/0/7/resolve",
            data={"reason": "known"},
            headers={"Origin": address(server)},
            timeout=PATIENCE_S,
        )
    assert 410 == answer.status_code
