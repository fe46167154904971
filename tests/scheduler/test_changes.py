"""Every change of a person is made with its entry of the audit, and only where it is allowed."""

from collections.abc import Callable

import pytest
from sqlalchemy import select, update

from linear_retry.errors import DeadLetterError, StoreVersionError
from linear_retry.scheduler.changes import Changes, Reason
from linear_retry.scheduler.destination_setting import remember
from linear_retry.scheduler.destinations import Destinations
from linear_retry.store import audit, dead_letters, messages, schema
from linear_retry.store.database import Database
from linear_retry.store.records import StoredDeadLetter, StoredMessage
from tests.store.contents import new_dead_letter, new_message

_DESTINATIONS = Destinations("billing.scheduled", ("orders*",))
_WHY = Reason("ann", "the bank is back")


def _waiting(database: Database) -> list[StoredMessage]:
    with database.reading() as connection:
        return messages.waiting(connection, "scheduler")


def _letter(database: Database, letter_id: int) -> StoredDeadLetter | None:
    with database.reading() as connection:
        return dead_letters.get(connection, letter_id)


def _audited(database: Database) -> list[audit.Change]:
    with database.reading() as connection:
        return audit.read(connection, limit=100)


@pytest.fixture
def changes(database: Database) -> Changes:
    """Over three messages and four dead letters, the last of which nobody may forward."""
    remember(database, _DESTINATIONS)
    with database.begin() as connection:
        messages.add(database, connection, [new_message(due_ms=10**15)] * 3)
        letters = [new_dead_letter()] * 2
        letters += [new_dead_letter(destination=""), new_dead_letter(destination="__secret")]
        dead_letters.add(database, connection, letters)
    return Changes(database)


@pytest.mark.parametrize(
    ("change", "action", "details"),
    [
        (lambda changes: changes.send_now([2, 1, 99], _WHY), "send-now", {}),
        (lambda changes: changes.postpone([2, 1, 99], 17, _WHY), "postpone", {"due_ms": 17}),
        (lambda changes: changes.give_up([2, 1, 99], _WHY), "give-up", {}),
        (lambda changes: changes.delete_messages([2, 1, 99], _WHY), "delete-message", {}),
        (lambda changes: changes.delete_dead_letters([2, 1, 99], _WHY), "delete-dead-letter", {}),
        (lambda changes: changes.forward([2, 1, 99], _WHY), "forward", {}),
    ],
)
def test_a_change_is_audited(
    database: Database,
    changes: Changes,
    change: Callable[[Changes], int],
    action: str,
    details: dict[str, int],
) -> None:
    """With who, what, how many, which and why; what was gone is not counted."""
    assert 2 == change(changes)
    (entry,) = _audited(database)
    assert ("ann", action, 2) == (entry.actor, entry.action, entry.count)
    assert {"ids": [1, 2, 99], "comment": "the bank is back"} | details == entry.details


@pytest.mark.parametrize(
    "change",
    [
        lambda changes: changes.send_now([2], _WHY),
        lambda changes: changes.postpone([2], 10**15, _WHY),
        lambda changes: changes.give_up([2], _WHY),
        lambda changes: changes.delete_messages([2], _WHY),
        lambda changes: changes.edit_message(2, {"value": None}, _WHY),
    ],
)
def test_a_change_ends_the_hold_of_its_lane(
    database: Database, changes: Changes, change: Callable[[Changes], object]
) -> None:
    """What was refused is not what is sent next: the lane need not wait for the rest of its hold.
    The others do."""
    with database.begin() as connection:
        messages.add(database, connection, [new_message(slot="1", due_ms=10**15)])
        held = {"hold_until_ms": 10**15, "failures": 3}
        connection.execute(update(schema.lane).values(**held))
    change(changes)
    with database.reading() as connection:
        rows = connection.execute(select(schema.lane).order_by(schema.lane.c.slot))
        assert [("0", 0, 3), ("1", 10**15, 3)] == [
            (row.slot, row.hold_until_ms, row.failures) for row in rows
        ]


def test_what_the_changes_do(database: Database, changes: Changes) -> None:
    """Sent now, postponed, deleted; forwarded, deleted."""
    assert 1 == changes.send_now([1], _WHY)
    assert 1 == changes.postpone([2], 2 * 10**15, _WHY)
    assert 1 == changes.delete_messages([3], _WHY)
    first, second = _waiting(database)
    assert (1, 2, 2 * 10**15) == (first.id, second.id, second.due_ms)
    assert first.due_ms < 10**15
    assert 1 == changes.forward([1], _WHY)
    assert 1 == changes.delete_dead_letters([2], _WHY)
    assert "billing/orders/0/1" == _waiting(database)[2].retry_id
    assert [None, None] == [_letter(database, number) for number in (1, 2)]


def test_what_may_be_under_way_is_counted(database: Database, changes: Changes) -> None:
    """Messages of a batch that was being sent were answered as deleted, and came all the same."""
    assert 0 == changes.count_due([1, 2, 3, 99])
    changes.send_now([1, 2], _WHY)
    assert 2 == changes.count_due([1, 2, 3, 99])
    with database.begin() as connection:
        connection.execute(update(schema.lane).values(hold_until_ms=2 * 10**15))
    assert 0 == changes.count_due([1, 2, 3, 99])


@pytest.mark.parametrize(
    ("letter", "problem"),
    [
        (3, "'' may not be sent to: this is no name of a topic"),
        (4, "'__secret' .* internal topic"),
    ],
)
def test_all_or_none_are_forwarded(
    database: Database, changes: Changes, letter: int, problem: str
) -> None:
    """A bulk with one that may not go to its destination changes nothing."""
    with pytest.raises(DeadLetterError, match=problem):
        changes.forward([1, letter], _WHY)
    assert _letter(database, 1) is not None
    assert [] == _audited(database)


def test_an_edited_dead_letter(database: Database, changes: Changes) -> None:
    """It goes with what was replaced; the audit says which parts, and never their content."""
    parts = {"destination": "orders.eu", "value": b"very-private"}
    retry_id = changes.forward_edited(4, parts, _WHY)
    sent = _waiting(database)[3]
    assert ("orders.eu", b"very-private", b"key") == (sent.destination, sent.value, sent.key)
    (entry,) = _audited(database)
    assert ["destination", "value"] == entry.details["edited"]
    assert retry_id == sent.retry_id == entry.details["retry_id"]
    assert "very-private" not in str(entry)


def test_an_edit_may_not_leave_the_destinations(database: Database, changes: Changes) -> None:
    """Neither to a topic that is not allowed, nor back to the scheduler itself."""
    before = _waiting(database)
    for destination in ("payments", "billing.scheduled"):
        for edit in (changes.forward_edited, changes.edit_message):
            with pytest.raises(DeadLetterError, match=destination):
                edit(1, {"destination": destination}, _WHY)
    assert _letter(database, 1) is not None
    assert before == _waiting(database)


def test_what_is_given_up_is_a_dead_letter(database: Database, changes: Changes) -> None:
    """Which says who gave it up, and why."""
    assert 1 == changes.give_up([2], _WHY)
    assert [1, 3] == [each.id for each in _waiting(database)]
    letter = _letter(database, 5)
    assert letter is not None
    assert ("given-up", "given up by ann: the bank is back") == (letter.reason, letter.error)
    assert (b"value", 0, "billing/orders/0/1") == (letter.value, letter.partition, letter.retry_id)


def test_an_edited_message_keeps_its_place(database: Database, changes: Changes) -> None:
    """What comes after it in its lane would overtake it; the audit has no content."""
    retry_id = changes.edit_message(2, {"value": b"very-private"}, _WHY)
    found = _waiting(database)
    assert [1, 2, 3] == [each.id for each in found]
    assert [10**15] * 3 == [each.due_ms for each in found]
    assert [b"value", b"very-private", b"value"] == [each.value for each in found]
    assert 1 == len({each.lane_id for each in found})
    edited = found[1]
    assert (retry_id, ("retry-edited-from", b"billing/orders/0/1")) == (
        edited.retry_id,
        edited.headers[-1],
    )
    (entry,) = _audited(database)
    assert ("edit-message", ["value"], retry_id) == (
        entry.action,
        entry.details["edited"],
        entry.details["retry_id"],
    )
    assert "very-private" not in str(entry)


def test_each_schedulers_letters_go_where_it_may_send(database: Database) -> None:
    """Of two over one store, whichever was started last; of a topic that neither has, where both
    may."""
    remember(database, _DESTINATIONS)
    remember(database, Destinations("shop.scheduled", ("orders.eu", "payments")))
    names = ("payments", "orders.eu", "orders.us")
    topics = ("billing.scheduled", "shop.scheduled", "elsewhere")
    with database.begin() as connection:
        for topic in topics:
            letters = [new_dead_letter(destination=n, origin=f"{topic}[0]@1") for n in names]
            dead_letters.add(database, connection, letters)
    changes = Changes(database)
    refused = []
    for letter in range(1, 10):
        try:
            changes.check_forward([letter])
        except DeadLetterError:
            refused.append(letter)
    assert [1, 6, 7, 9] == refused


def test_an_outboxs_letter_goes_where_the_application_sent_it(database: Database) -> None:
    """The scheduler's patterns are not about it, until an operator names another topic."""
    with database.begin() as connection:
        letters = [new_dead_letter(service="outbox", destination="payments")] * 2
        dead_letters.add(database, connection, letters)
    remember(database, _DESTINATIONS)
    changes = Changes(database)
    assert 1 == changes.forward([1], _WHY)
    with pytest.raises(DeadLetterError, match="refunds"):
        changes.forward_edited(2, {"destination": "refunds"}, _WHY)
    assert changes.forward_edited(2, {"value": None}, _WHY) is not None


def test_a_dead_letter_that_is_gone(database: Database, changes: Changes) -> None:
    """There is nothing to edit, and nothing to tell; nor of a message that is gone."""
    assert changes.forward_edited(99, {"value": None}, _WHY) is None
    assert changes.edit_message(99, {"value": None}, _WHY) is None
    assert [] == _audited(database)


@pytest.mark.parametrize(
    "change",
    [
        lambda changes: changes.send_now([1], _WHY),
        lambda changes: changes.postpone([1], 17, _WHY),
        lambda changes: changes.give_up([1], _WHY),
        lambda changes: changes.edit_message(1, {"value": None}, _WHY),
        lambda changes: changes.delete_messages([1], _WHY),
        lambda changes: changes.delete_dead_letters([1], _WHY),
        lambda changes: changes.forward([1], _WHY),
        lambda changes: changes.forward_edited(1, {"value": None}, _WHY),
    ],
)
def test_no_change_without_its_entry(
    database: Database, changes: Changes, change: Callable[[Changes], object]
) -> None:
    """Where the audit cannot be written, nothing is changed."""
    before = _waiting(database)
    with database.begin() as connection:
        schema.audit.drop(connection)
    with pytest.raises(StoreVersionError):
        change(changes)
    assert before == _waiting(database)
    assert _letter(database, 1) is not None
