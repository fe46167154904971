"""What became of a message is written only where it is still the message that was read."""

from dataclasses import replace

import pytest

from linear_retry.store import dead_letters, messages
from linear_retry.store.database import Database
from linear_retry.store.records import StoredMessage
from linear_retry.store.sender.batch import Dead, Held, Outcome
from linear_retry.store.sender.progress import LaneHeld, MessageDied
from linear_retry.store.sender.settlement import Settlement
from tests.store.contents import new_message


def _refused(read: StoredMessage) -> list[Outcome]:
    return [Dead(read, "too-large", "it is"), Held(read, "it is refused")]


@pytest.mark.parametrize("number", [0, 1])
def test_what_is_postponed_meanwhile_is_not_dead(database: Database, number: int) -> None:
    """A message that the brokers refused while somebody postponed it became a dead letter, and its
    lane was held for it."""
    later_ms = 2 * 10**15
    settlement = Settlement(database, lambda _: None, database)
    with database.begin() as connection:
        messages.add(database, connection, [new_message()])
        (read,) = messages.waiting(connection, "scheduler")
    with database.begin() as connection:
        messages.reschedule(database, connection, [read.id], later_ms)
    with database.begin() as connection:
        assert [] == settlement.write(connection, [_refused(read)[number]])
    with database.begin() as connection:
        (postponed,) = messages.waiting(connection, "scheduler")
        assert later_ms == postponed.due_ms
        assert 1 == len(settlement.write(connection, [_refused(postponed)[number]]))
        assert dead_letters.get(connection, 1) is not None


@pytest.mark.parametrize("outcome", [0, 1])
def test_what_is_edited_meanwhile_is_not_dead(database: Database, outcome: int) -> None:
    """What the brokers refused is not there any more: the edited message is sent first."""
    settlement = Settlement(database, lambda _: None, database)
    with database.begin() as connection:
        messages.add(database, connection, [new_message()])
        (read,) = messages.waiting(connection, "scheduler")
        messages.edit(database, connection, replace(read, value=b"small"))
    with database.begin() as connection:
        assert [] == settlement.write(connection, [_refused(read)[outcome]])
        assert 1 == len(messages.waiting(connection, "scheduler"))


def test_a_refused_message_holds_its_lane(database: Database) -> None:
    """Its key's later ones would overtake it; one without a key has none, and dies."""
    settlement = Settlement(database, lambda _: 3.0, database, on_refused="hold")
    new = [new_message(slot="any", key=None), new_message(slot="key-7")]
    with database.begin() as connection:
        messages.add(database, connection, new)
        without_key, with_key = messages.waiting(connection, "scheduler")
        held = settlement.write(connection, [Dead(with_key, "too-large", "it is")])
        died = settlement.write(connection, [Dead(without_key, "too-large", "it is")])
        assert [with_key] == messages.waiting(connection, "scheduler")
    assert [LaneHeld("scheduler", "orders", "key-7", 1, 3.0, "it is")] == held
    assert [MessageDied("scheduler", "orders", without_key.retry_id, "too-large", "it is")] == died
