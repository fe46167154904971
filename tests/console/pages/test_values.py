"""Keys, values and headers are for operators, and for viewers if it was started so."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from linear_retry.console.app import create_app
from linear_retry.console.frame.services import Services
from linear_retry.console.state.settings import Settings
from linear_retry.store import messages
from linear_retry.store.database import Database
from linear_retry.web import serve
from tests.console.conftest import signed_in
from tests.dlq.conftest import scene as scene
from tests.dlq.scene import NewScene, Scene
from tests.kafka_operations import wait_until
from tests.scheduler.http.conftest import ACCESS
from tests.store.contents import new_message

pytestmark = pytest.mark.broker

_WAITING = "/stored/scheduler/waiting"


@contextmanager
def _signed_in(
    given: Scene, directory: Path, store: Database, name: str, *, shows_values: bool
) -> Iterator[httpx.Client]:
    """A client of a console over a letter and a message; each has a secret in all its parts."""
    letter = given.letter(0, 1, key=b"a-secret", value=b"a-secret", headers=(("h", b"a-secret"),))
    given.add_letters([letter])
    with store.begin() as connection:
        message = new_message(key=b"a-secret", value=b"a-secret", headers=(("h", b"a-secret"),))
        messages.add(store, connection, [message])
    settings = Settings(
        kafka=given.config,
        state=directory,
        journal="journal",
        dead_letters=(given.letters,),
        store=store,
        shows_values=shows_values,
    )
    with (
        Services(settings, ACCESS) as services,
        serve(create_app(services), services.access, 0) as server,
        signed_in(server, name) as client,
    ):
        (indexed,) = services.letters.topics()
        wait_until(lambda: indexed.indexer.progress.is_complete, "all is indexed")
        yield client


@pytest.mark.parametrize(
    ("name", "shows_values", "sees"),
    [("vic", False, False), ("vic", True, True), ("ann", False, True)],
)
def test_who_sees_values(
    scene: NewScene, tmp_path: Path, postgres_url: str, name: str, shows_values: bool, sees: bool
) -> None:
    """On pages they are left out for all others, and files of them are refused."""
    given = scene()
    letters = f"/letters/{given.letters}"
    pages = (letters, f"{letters}/0/0", _WAITING, f"{_WAITING}/1")
    parts = ("0/0/key.bin", "0/0/value.bin", "0/0/export.jsonl", "export.jsonl")
    with (
        closing(Database(postgres_url)) as store,
        _signed_in(given, tmp_path, store, name, shows_values=shows_values) as client,
    ):
        found = {path: client.get(path) for path in pages}
        files = [client.get(f"{letters}/{part}") for part in parts]
        files.append(client.get(f"{_WAITING}/1/value"))
        asked = ("key=a-secret", "no-key=yes", "header=h=a-secret")
        searches = [client.get(f"{letters}?{each}") for each in asked]
    assert dict.fromkeys(pages, 200) == {path: each.status_code for path, each in found.items()}
    assert dict.fromkeys(pages, sees) == {p: "a-secret" in each.text for p, each in found.items()}
    assert [200 if sees else 403] * 8 == [each.status_code for each in (*files, *searches)]
    exported = ("a-secret", "YS1zZWNyZXQ")  # a value is text, or base64
    assert [sees] * 5 == [any(part in each.text for part in exported) for each in files]
