"""A console with a schema registry shows what its serializers wrote, wherever it is kept."""

from pathlib import Path

import httpx
import pytest

from linear_retry.console.app import create_app
from linear_retry.console.frame.services import Services
from linear_retry.console.state.settings import Settings
from linear_retry.store import dead_letters, messages
from linear_retry.store.database import Database
from linear_retry.web import Access, serve
from tests.console.conftest import address
from tests.dlq.conftest import scene as scene
from tests.dlq.scene import NewScene, Scene
from tests.kafka.registry import avro_order, serving
from tests.patience import PATIENCE_S
from tests.store.contents import new_dead_letter, new_message

pytestmark = pytest.mark.broker


def _pages(given: Scene, settings: Settings) -> list[str]:
    """Returns the pages of a letter, of a message that waits, and of a dead letter of the store."""
    paths = (
        f"/letters/{given.letters}/0/0",
        "/stored/scheduler/waiting/1",
        "/stored/scheduler/dead/1",
    )
    with (
        Services(settings, Access()) as services,
        serve(create_app(services), services.access, 0) as server,
        httpx.Client(base_url=address(server), timeout=PATIENCE_S) as client,
    ):
        return [client.get(path).text for path in paths]


def test_values_of_a_registry_are_decoded_everywhere(
    scene: NewScene, tmp_path: Path, sqlite_url: str
) -> None:
    """Those of stored messages were shown in hex alone; a registry that is away is said."""
    given, store = scene(), Database(sqlite_url)
    with serving() as url:
        value = avro_order(url)
        given.add_letters([given.letter(0, 1, value=value)])
        with store.begin() as connection:
            messages.add(store, connection, [new_message(value=value)])
            dead_letters.add(store, connection, [new_dead_letter(value=value)])
        settings = Settings(
            kafka=given.config,
            state=tmp_path,
            journal="journal",
            dead_letters=(given.letters,),
            store=store,
            schema_registry=url,
        )
        for page in _pages(given, settings):
            assert "as schema registry</summary>" in page
            assert "&#34;amount&#34;: &#34;12.50&#34;" in page
    for page in _pages(given, settings):
        assert "as schema registry (cannot be decoded)</summary>" in page
        assert "as hex</summary>" in page
    store.close()
