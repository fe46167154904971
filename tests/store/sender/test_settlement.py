"""What became of a message is written only where it is still the message that was read."""

import pytest

from linear_retry.store import dead_letters, messages
from linear_retry.store.database import Database
from linear_retry.store.records import StoredMessage
from linear_retry.store.sender.batch import Dead, Held, Outcome
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
