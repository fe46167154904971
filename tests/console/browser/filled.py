"""A console with something on each page, over a real broker."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from linear_retry.console.app import create_app
from linear_retry.console.frame.services import Services
from linear_retry.console.state.settings import Settings
from linear_retry.journal.entry import Entry, encode
from linear_retry.records.control import DEFAULT_TOPIC
from linear_retry.retry.clock import now_ms
from linear_retry.store import dead_letters, messages
from linear_retry.store.database import Database
from linear_retry.web import Access, serve
from tests.console.recording import record
from tests.dlq.scene import NewScene, Scene
from tests.journal.journal_story import outage, recovered
from tests.kafka_operations import wait_until
from tests.postgres import Postgres
from tests.store.contents import new_dead_letter, new_message

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Shown:
    """A console, and what it shows."""

    address: str
    scene: Scene
    store: Database
    services: Services

    @property
    def letter(self) -> str:
        """The path of a letter."""
        return f"/letters/{self.scene.letters}/0/0"

    def open(self, page: Page, path: str) -> None:
        """Opens a page of it."""
        page.goto(f"{self.address}{path}")


@contextmanager
def filled(
    given: Scene,
    directory: Path,
    store_url: str,
    entries: list[Entry],
    access: Access | None = None,
    **more: Any,
) -> Iterator[Shown]:
    """Serves a console over the scene's letters, a journal, a store with both services.

    Without `access`, everyone on this machine is an operator; `more` are settings.
    """
    journal = f"journal-{directory.name}"
    given.kafka.create_topic(journal, 1)
    given.kafka.produce(journal, ((0, each.key, encode(each), ()) for each in entries))
    store = Database(store_url)
    _fill(store)
    settings = Settings(
        kafka=given.config,
        state=directory / "state",
        journal=journal,
        control=DEFAULT_TOPIC,
        dead_letters=(given.letters,),
        store=store,
        **more,
    )
    with (
        Services(settings, access or Access()) as services,
        serve(create_app(services), services.access, 0) as server,
    ):
        indexed = services.letters.get(given.letters)
        assert indexed is not None
        wait_until(lambda: indexed.indexer.progress.is_complete, "the letters are indexed")
        record(
            services.audit, "ann", "retry now", "orders[0]@1042", why="it is back", outcome="sent"
        )
        yield Shown(f"http://127.0.0.1:{server.port}", given, store, services)
    store.close()


@pytest.fixture(scope="module")
def postgres_store(
    postgres: Postgres, migrated_postgres: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The URL of a store in PostgreSQL, for the tests of a module."""
    name = tmp_path_factory.mktemp("console_store").name
    yield postgres.new_database(name, template=migrated_postgres)
    postgres.drop_database(name)


@pytest.fixture(scope="module")
def shown(
    scene: NewScene, tmp_path_factory: pytest.TempPathFactory, postgres_store: str
) -> Iterator[Shown]:
    """A console with two outages and a few letters, for the tests of a module."""
    given = some_letters(scene)
    directory = tmp_path_factory.mktemp("shown")
    entries = [*recovered(now_ms() - 48 * _HOUR_MS, "stock"), *outage(now_ms() - _HOUR_MS)]
    with filled(given, directory, postgres_store, entries) as shown:
        yield shown


def some_letters(scene: NewScene) -> Scene:
    """A scene with twelve letters in two partitions."""
    given = scene(partitions=2)
    given.add_letters(given.letter(number % 2, number) for number in range(12))
    return given


def _fill(store: Database) -> None:
    due_ms = now_ms() + _HOUR_MS
    waiting = [new_message(due_ms=due_ms + number * 60_000) for number in range(5)]
    waiting.append(new_message(destination="payments", due_ms=due_ms, slot="key-7"))
    with store.begin() as connection:
        messages.add(store, connection, waiting)
        messages.add(store, connection, [new_message(service="outbox", origin=None)])
        dead_letters.add(store, connection, [new_dead_letter(), new_dead_letter(service="outbox")])
