"""What a person does with messages and dead letters of a store."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from uuid import uuid4

import pytest
from playwright.sync_api import Page, expect

from linear_retry.console.state.settings import Settings
from linear_retry.journal import DEFAULT_TOPIC
from linear_retry.scheduler.destination_setting import remember
from linear_retry.scheduler.destinations import Destinations
from linear_retry.store import audit, dead_letters, messages
from linear_retry.store.database import Database
from tests.console.browser.filled import postgres_store as postgres_store
from tests.console.browser.serving import serving
from tests.store.contents import new_dead_letter, new_message

_FAR_MS = 2_208_988_800_000  # 2040
_KEY = b"customer-7"
_WHY = "the bank says so"


@pytest.fixture(scope="module")
def database(postgres_store: str) -> Iterator[Database]:
    """A store of this module's own."""
    database = Database(postgres_store)
    remember(database, Destinations("billing.scheduled", ("orders*",)))
    yield database
    database.close()


@pytest.fixture(scope="module")
def address(database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A console over it; its brokers are away."""
    settings = Settings(
        kafka={"bootstrap.servers": "localhost:1"},
        state=tmp_path_factory.mktemp("state"),
        journal=DEFAULT_TOPIC,
        dead_letters=("orders.dlq",),
        store=database,
    )
    with serving(settings) as address:
        yield address


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the store has of a group, and a page that shows it."""

    page: Page
    database: Database
    group: str

    def find(self, field: str, text: str) -> None:
        """Searches for this text, among what is the group's."""
        self.page.get_by_label("Group").fill(self.group)
        self.page.get_by_label(field).fill(text)
        self.page.get_by_label(field).press("Enter")
        self.page.wait_for_url(f"**{self.group}**")

    def change(self, button: str, first: str) -> None:
        """Clicks the button of a change, reads what is asked, and says why."""
        self.page.get_by_role("button", name=button).click()
        self.page.get_by_role("heading", name=f"{button}: {first}").wait_for()
        self.page.get_by_label("Reason").fill(_WHY)
        self.page.get_by_role("button", name=button).click()

    def due_ms(self) -> dict[str, int]:
        """When each message is due."""
        with self.database.reading() as connection:
            found = messages.waiting(connection, "scheduler")
        return {each.retry_id: each.due_ms for each in found if each.group_id == self.group}

    def last_change(self) -> tuple[str, str, int | None, object]:
        """Who did what to how many, and why."""
        with self.database.reading() as connection:
            [change] = audit.read(connection, limit=1)
        return change.actor, change.action, change.count, change.details["comment"]


@pytest.fixture
def stored(page: Page, address: str, database: Database) -> _Stored:
    """Five messages, two of which have a key, and two dead letters."""
    group = f"billing-{uuid4().hex[:8]}"
    message, letter = new_message(group_id=group), new_dead_letter(group_id=group)
    waiting = [
        replace(message, due_ms=_FAR_MS + n, retry_id=f"id-{n}", key=_KEY if n > 2 else None)
        for n in range(5)
    ]
    letters = [replace(letter, retry_id=each, error=f"{each} is too large") for each in "ab"]
    with database.begin() as connection:
        messages.add(database, connection, waiting)
        dead_letters.add(database, connection, letters)
    page.goto(address)
    page.get_by_role("link", name="Stored").click()
    return _Stored(page, database, group)


def test_a_message_is_found_and_sent_now(stored: _Stored) -> None:
    """By its key; the others stay where they are in time."""
    stored.find("Key, whole", _KEY.decode())
    chosen = stored.page.get_by_role("checkbox", name="number")
    expect(chosen).to_have_count(2)
    chosen.last.check()
    stored.change("Send now", "1 message")
    expect(stored.page.get_by_text("1 message is due now.")).to_be_visible()
    found = stored.due_ms()
    assert found.pop("id-4") < _FAR_MS
    assert {f"id-{each}": _FAR_MS + each for each in range(4)} == found
    assert ("local", "send-now", 1, _WHY) == stored.last_change()


def test_messages_are_deleted(stored: _Stored) -> None:
    """After a second step, which says that they cannot be restored, and may be cancelled."""
    page = stored.page
    stored.find("Key, whole", _KEY.decode())
    page.get_by_role("checkbox", name="all that match").check()
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("cannot be restored")).to_be_visible()
    page.get_by_role("link", name="Cancel").click()
    assert 5 == len(stored.due_ms())
    stored.find("Due from, UTC", "2030-01-01T00:00")
    for box in page.get_by_role("checkbox", name="number").all()[:2]:
        box.check()
    stored.change("Delete", "2 messages")
    expect(page.get_by_text("2 messages are deleted.")).to_be_visible()
    assert {"id-2", "id-3", "id-4"} == stored.due_ms().keys()
    assert ("local", "delete-message", 2, _WHY) == stored.last_change()


def test_a_dead_letter_is_sent_again(stored: _Stored) -> None:
    """It is found by its error, read, and waits again, due now; the other stays dead."""
    page = stored.page
    page.get_by_role("link", name="Dead letters of the scheduler").click()
    stored.find("Text of the error", "b is too")
    rows = page.get_by_role("row").filter(has_text="is too large")
    expect(rows).to_have_count(1)
    rows.get_by_role("link").click()
    expect(page.get_by_text("b is too large")).to_be_visible()
    stored.change("Send again", "1 dead letter")
    expect(page.get_by_text("1 message is due now.")).to_be_visible()
    assert "b" in stored.due_ms()
    assert ("local", "forward", 1, _WHY) == stored.last_change()
    stored.find("Text of the error", "is too")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("a is too large")


def test_a_dead_letter_is_edited_and_forwarded(stored: _Stored) -> None:
    """What differs is shown before it is sent; the edited one waits in its place."""
    page = stored.page
    page.get_by_role("link", name="Dead letters of the scheduler").click()
    stored.find("Text of the error", "b is too")
    page.get_by_role("row").filter(has_text="is too large").get_by_role("link").click()
    page.get_by_role("link", name="Edit and forward").click()
    page.get_by_role("textbox", name="Value", exact=True).first.fill("a shorter value")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("pre")).to_contain_text("+a shorter value")
    page.get_by_label("Reason").fill(_WHY)
    page.get_by_role("button", name="Send it").click()
    expect(page.get_by_text("1 message is due now, as")).to_be_visible()
    [edited] = stored.due_ms().keys() - {f"id-{each}" for each in range(5)}
    assert edited not in ("a", "b")
    assert ("local", "edit-and-forward", 1, _WHY) == stored.last_change()
