"""A console whose user lacks permissions says on each page which one to ask for."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from confluent_kafka.admin import AclOperation, ResourceType  # type: ignore[attr-defined]  # exported by import only

from linear_retry.console.app import create_app
from linear_retry.console.frame.services import Services
from linear_retry.console.state.settings import Settings
from linear_retry.web import Access, serve
from tests.console.conftest import address
from tests.dlq.guarded_kafka import GuardedKafka
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker

_JOURNAL, _LETTERS = "linear-retry.journal", "orders.dlq"
_TOPICS = (_JOURNAL, _LETTERS, "orders.dlq.resolved")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedKafka]:
    kafka = GuardedKafka(tmp_path_factory.mktemp("strict") / "kafka", strict=True)
    with kafka:
        for name in _TOPICS:
            kafka.create_topic(name)
        yield kafka


@contextmanager
def _console(kafka: GuardedKafka, directory: Path) -> Iterator[httpx.Client]:
    settings = Settings(
        kafka=kafka.keys("reader"), state=directory, journal=_JOURNAL, dead_letters=(_LETTERS,)
    )
    with (
        Services(settings, Access()) as services,
        serve(create_app(services), services.access, 0) as server,
        httpx.Client(base_url=address(server), timeout=PATIENCE_S) as client,
    ):
        yield client


def _wait_for_text(client: httpx.Client, path: str, parts: Iterable[str]) -> str:
    def find() -> str | None:
        text = client.get(path).text.replace("&#39;", "'")
        return text if all(part in text for part in parts) else None

    return wait_until(find, f"{path} says so", lambda: client.get(path).text)


def test_each_page_names_the_permission(guarded: GuardedKafka, tmp_path: Path) -> None:
    """With nothing allowed no page says that nothing is there; once allowed, they recover."""
    no_journal = (f"no permission for topic '{_JOURNAL}'", "ask for READ and DESCRIBE on it")
    no_letters = (f"no permission for topic '{_LETTERS}'", "ask for DESCRIBE on it")
    with _console(guarded, tmp_path) as client:
        text = _wait_for_text(client, "/now", no_journal)
        assert not any(part in text for part in ("No consumer has written", "no circuit"))
        text = _wait_for_text(client, "/outages", no_journal)
        assert "No circuit is known to have been open" in text
        for path in ("/letters", f"/letters/{_LETTERS}"):
            _wait_for_text(client, path, no_letters)
        letter = client.get(f"/letters/{_LETTERS}/0/0")
        assert (503, True) == (letter.status_code, "no permission for topic" in letter.text)
        operations = (AclOperation.DESCRIBE, AclOperation.READ)
        guarded.allow_only(
            [(ResourceType.TOPIC, name, one) for name in _TOPICS for one in operations]
        )
        _wait_for_text(client, "/now", ["No consumer has written"])
        _wait_for_text(client, "/outages", ["No circuit was open"])
        _wait_for_text(client, f"/letters/{_LETTERS}", ["The topic holds no letters"])
