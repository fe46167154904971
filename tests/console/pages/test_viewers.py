"""What viewers are shown of a console with something on each page."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from linear_retry.console.app import create_app
from linear_retry.console.frame.services import Services
from linear_retry.console.jobs.job import Action, Options
from linear_retry.console.state.settings import Settings
from linear_retry.dlq import EVERYTHING
from linear_retry.store import dead_letters, messages
from linear_retry.store.database import Database
from linear_retry.web import serve
from tests.console.conftest import routes_of, signed_in
from tests.dlq.conftest import scene as scene
from tests.dlq.scene import NewScene, Scene
from tests.kafka_operations import wait_until
from tests.scheduler.http.conftest import ACCESS
from tests.store.contents import new_dead_letter, new_message

pytestmark = pytest.mark.broker

_POST = re.compile(r"""<form[^>]*method="post"[^>]*action="([^"]*)""")


@contextmanager
def _console(
    given: Scene, directory: Path, database: Database, *, shows_values: bool
) -> Iterator[Services]:
    given.add_letters([given.letter(0, 1)])
    with database.begin() as connection:
        messages.add(database, connection, [new_message()])
        dead_letters.add(database, connection, [new_dead_letter()])
    settings = Settings(
        kafka=given.config,
        state=directory,
        journal="journal",
        control="control",
        dead_letters=(given.letters,),
        store=database,
        shows_values=shows_values,
    )
    with Services(settings, ACCESS) as services:
        job_id = services.jobs.plan(
            given.letters, Action.REPLAY, EVERYTHING, Options(), actor="ann"
        )
        services.jobs.wait(job_id, 60)
        (indexed,) = services.letters.topics()
        wait_until(lambda: indexed.indexer.progress.is_complete, "all is indexed")
        yield services


def _pages(client: httpx.Client, services: Services, topic: str) -> Iterator[tuple[str, str]]:
    """Path and text of each page that there is; of those that ask for something too."""
    parts = {"topic": topic, "partition": 0, "offset": 0, "job_id": 1, "form": "csv"}
    parts |= {"service": "scheduler", "kind": "dead", "number": 1, "part": "value"}
    query: dict[str, str | int] = {
        "topic": topic,
        "group": "billing",
        "number": 1,
        "command": "retry",
    }
    for route in routes_of(services):
        if "GET" in (route.methods or ()):
            query["action"] = "delete" if "stored" in route.path else "replay"
            path = route.path.format_map(parts)
            with client.stream("GET", path, params=query, follow_redirects=True) as answer:
                is_page = answer.headers.get("Content-Type", "").startswith("text/html")
                if is_page and answer.status_code == 200:
                    yield path, answer.read().decode()


@pytest.mark.parametrize("shows_values", [False, True])
def test_no_page_shows_a_viewer_a_form_that_changes_something(
    scene: NewScene, tmp_path: Path, database: Database, shows_values: bool
) -> None:
    """Whole forms of a replay, and of a message to edit, were refused after they were filled."""
    given = scene()
    with (
        _console(given, tmp_path, database, shows_values=shows_values) as services,
        serve(create_app(services), services.access, 0) as server,
    ):
        with signed_in(server, "ann") as operator:
            all_pages = dict(_pages(operator, services, given.letters))
        with signed_in(server, "vic") as viewer:
            pages = dict(_pages(viewer, services, given.letters))
    letters = f"/letters/{given.letters}"
    operators = {"/jobs/new", f"{letters}/selection", f"{letters}/0/0/edit"}
    operators |= {"/stored/scheduler/dead/change", "/stored/scheduler/dead/1/edit"}
    assert operators == all_pages.keys() - pages.keys()
    assert {"/login", "/logout"} == {
        each for text in pages.values() for each in _POST.findall(text)
    }
