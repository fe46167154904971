"""The console lists and changes what a store holds as the scheduler does."""

import pytest

from linear_retry.console.stored.forms import FormError, place
from linear_retry.console.stored.records import Action, Outcome, Outcomes, StoredRecords, action_of
from linear_retry.errors import DeadLetterError
from linear_retry.scheduler.changes import Reason
from linear_retry.scheduler.destination_setting import remember
from linear_retry.scheduler.destinations import Destinations
from linear_retry.store import audit, dead_letters, messages
from linear_retry.store.database import Database
from linear_retry.store.listing.filters import DeadLetterFilter, MessageFilter
from linear_retry.web.security.authentication import RefusedError
from tests.store.contents import new_dead_letter, new_message

_WAITING = MessageFilter(service="scheduler")
_DEAD = DeadLetterFilter(service="scheduler")
_WHY = Reason("ann", "the bank is back")


@pytest.fixture
def stored(database: Database) -> StoredRecords:
    """Over 250 messages and three dead letters, the last of which may go nowhere."""
    remember(database, Destinations("billing.scheduled", ("orders*",)))
    waiting = [new_message(due_ms=10**15 + number) for number in range(250)]
    letters = [new_dead_letter(), new_dead_letter(), new_dead_letter(destination="__secret")]
    with database.begin() as connection:
        messages.add(database, connection, waiting)
        dead_letters.add(database, connection, letters)
    return StoredRecords(database)


def test_the_pages_have_every_message_once_by_due_time(stored: StoredRecords) -> None:
    """The last one has no next."""
    after, found = "", []
    for size in (100, 100, 50):
        page = stored.page(_WAITING, place(after))
        assert size == len(page.records)
        found += [each.id for each in page.records]
        after = page.next or ""
    assert ("", sorted(set(found))) == (after, found)
    assert (250, found) == (stored.chosen(_WAITING).count, sorted(stored.chosen(_WAITING).ids))


def test_dead_letters_are_listed_and_counted(stored: StoredRecords) -> None:
    """The latest first, beside what waits."""
    page = stored.page(_DEAD, None)
    assert ([3, 2, 1], None) == ([each.id for each in page.records], page.next)
    counts = stored.counts("scheduler")
    assert (250, 3) == (counts.waiting[0].waiting, sum(each.count for each in counts.dead))
    assert [] == stored.counts("outbox").waiting


@pytest.mark.parametrize(
    ("action", "is_dead", "audited"),
    [
        ("send-now", False, "send-now"),
        ("postpone", False, "postpone"),
        ("give-up", False, "give-up"),
        ("delete", False, "delete-message"),
        ("send-now", True, "forward"),
        ("delete", True, "delete-dead-letter"),
    ],
)
def test_a_change_is_the_schedulers(
    database: Database, stored: StoredRecords, action: Action, is_dead: bool, audited: str
) -> None:
    """With its entry of the store's audit; what is gone is not counted."""
    assert 2 == stored.change(action, [1, 2, 999], _WHY, is_dead=is_dead, due_ms=17)
    with database.reading() as connection:
        [change] = audit.read(connection, limit=9)
    assert (audited, 2, "ann") == (change.action, change.count, change.actor)
    assert "the bank is back" == change.details["comment"]


def test_a_dead_letter_that_may_go_nowhere_stays(stored: StoredRecords) -> None:
    """And so do the others that were chosen with it."""
    with pytest.raises(DeadLetterError):
        stored.change("send-now", [1, 3], _WHY, is_dead=True)
    assert stored.one(1, is_dead=True) is not None


def test_what_is_no_change_is_refused(stored: StoredRecords) -> None:
    """A dead letter has no time to be postponed."""
    with pytest.raises(FormError, match="'drop' is no change; choose one of send-now, postpone"):
        action_of("drop")
    with pytest.raises(FormError, match="only a message that waits can be postponed"):
        stored.change("postpone", [1], _WHY, is_dead=True, due_ms=17)
    assert "delete" == action_of("delete")


def test_one_is_shown_whole(stored: StoredRecords) -> None:
    """Until it is gone."""
    found = stored.one(1, is_dead=False)
    assert (b"key", 10**15) == (found and found.key, getattr(found, "due_ms", 0))
    for is_dead in (False, True):
        with pytest.raises(RefusedError, match=r"waits no more|is gone"):
            stored.one(999, is_dead=is_dead)


def test_the_oldest_outcome_makes_room() -> None:
    """However many changes are made, no more are kept than that."""
    outcomes = Outcomes(most=2)
    made = [Outcome("delete", number, number) for number in range(3)]
    tokens = [outcomes.keep(each) for each in made]
    assert [None, *made[1:]] == [outcomes.get(token) for token in tokens]
