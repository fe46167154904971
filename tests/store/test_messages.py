"""Messages wait in their lanes, and are read in order once they are due."""

import random
from dataclasses import replace

import pytest
from sqlalchemy import select, text, update

from linear_retry.store import messages
from linear_retry.store.database import Database
from linear_retry.store.lanes import LEASES, lease_of
from linear_retry.store.messages import Limits
from linear_retry.store.records import NewMessage, StoredMessage, slot_of
from linear_retry.store.schema import lane, message
from tests.store.contents import new_message

_ALL = range(LEASES)
_LATER_MS = 2**53
_LIMITS = Limits()


def _add(database: Database, *added: NewMessage) -> None:
    with database.begin() as connection:
        messages.add(database, connection, added)


def _due(database: Database, limits: Limits = _LIMITS) -> list[StoredMessage]:
    with database.begin() as connection:
        return messages.due(database, connection, "scheduler", _ALL, limits)


@pytest.mark.parametrize(
    "content",
    [
        {"value": bytes(range(256)) * 4096},
        {"value": None},
        {"value": b""},
        {"key": None, "slot": "any"},
        {"key": b"\x00\xff", "slot": slot_of(b"\x00\xff", None)},
        {"headers": (("a", b"\x00\xff"), ("a", None), ("", b"")), "timestamp_ms": None},
        {"group_id": None, "origin": None},
    ],
)
def test_content_comes_out_as_it_went_in(database: Database, content: dict[str, object]) -> None:
    """1 MB values, tombstones, null keys and binary headers, byte for byte."""
    added = new_message(**content)
    _add(database, added)
    (found,) = _due(database)
    for name in NewMessage.__dataclass_fields__:
        assert getattr(added, name) == getattr(found, name)
    record = found.outgoing()
    assert (added.destination, added.key, added.value, added.headers) == record[:4]


def test_text_that_the_database_refuses_is_replaced(database: Database) -> None:
    """A foreign record's NUL or lone surrogate does not stop the intake."""
    _add(database, new_message(retry_id="a\0b\ud800", group_id="\0"))
    (found,) = _due(database)
    assert ("a\ufffdb?", "\ufffd") == (found.retry_id, found.group_id)


def test_messages_come_by_lane_then_due_time_then_arrival(database: Database) -> None:
    """In a lane the earlier comes first; of one time, the one stored first."""
    added = [
        new_message(slot=str(slot), due_ms=due, retry_id=f"{slot}/{due}/{number}")
        for slot in range(3)
        for due in (5, 1, 3)
        for number in range(3)
    ]
    random.Random(1).shuffle(added)
    _add(database, *added)
    of_lanes = [
        sorted((each for each in added if each.slot == str(slot)), key=lambda each: each.due_ms)
        for slot in range(3)
    ]
    found = _due(database)
    for slot, expected in enumerate(of_lanes):
        ids = [each.retry_id for each in found if each.slot == str(slot)]
        assert [each.retry_id for each in expected] == ids
    assert sorted(found, key=lambda each: each.lane_id) == found


def test_nothing_comes_early(database: Database) -> None:
    """Due is judged by the database's clock: what is due later stays."""
    with database.begin() as connection:
        now_ms = database.now_ms(connection)
    _add(
        database, *(new_message(due_ms=due) for due in (now_ms + 3_600_000, now_ms - 1, _LATER_MS))
    )
    assert [now_ms - 1] == [each.due_ms for each in _due(database)]


def test_a_lane_on_hold_holds_no_other(database: Database) -> None:
    """A destination that refuses keeps back its own lane only."""
    _add(database, new_message(slot="0"), new_message(slot="1"))
    with database.begin() as connection:
        connection.execute(update(lane).where(lane.c.slot == "0").values(hold_until_ms=_LATER_MS))
    assert ["1"] == [each.slot for each in _due(database)]


def test_of_a_lane_that_was_refused_only_the_first_is_read(database: Database) -> None:
    """With those behind it, each attempt would be a batch that fails, and is halved until it is
    alone: nine transactions for 500 that wait."""
    _add(database, *(new_message(slot=slot, due_ms=n) for n in range(3) for slot in "01"))
    with database.begin() as connection:
        connection.execute(update(lane).where(lane.c.slot == "0").values(failures=2))
    assert [("0", 0), ("1", 0), ("1", 1), ("1", 2)] == sorted(
        (each.slot, each.due_ms) for each in _due(database)
    )


def test_only_the_lanes_of_the_leases_are_read(database: Database) -> None:
    """Another instance sends the others."""
    _add(database, *(new_message(slot=str(slot)) for slot in range(20)))
    mine = lease_of("scheduler", "orders", "0")
    with database.begin() as connection:
        found = messages.due(database, connection, "scheduler", [mine])
        others = messages.due(database, connection, "outbox", _ALL)
    expected = {
        str(slot) for slot in range(20) if lease_of("scheduler", "orders", str(slot)) == mine
    }
    assert expected == {each.slot for each in found}
    assert [] == others


def test_each_lane_gets_its_share(database: Database) -> None:
    """A lane with a backlog does not keep the others waiting."""
    _add(database, *(new_message(slot="0", due_ms=number) for number in range(50)))
    _add(database, *(new_message(slot=str(slot), due_ms=90 + slot) for slot in range(1, 5)))
    found = _due(database, Limits(rows=10, rows_a_lane=8))
    assert ["0", "0", "1", "2", "3", "4"] == [each.slot for each in found]
    assert [0, 1] == [each.due_ms for each in found[:2]]


def test_bytes_bound_what_is_read(database: Database) -> None:
    """As many as fit, from the head of each lane on; one message always."""
    _add(
        database,
        *(
            new_message(slot=str(number % 2), value=bytes(400), due_ms=number)
            for number in range(6)
        ),
    )
    assert [0, 2, 1] == [each.due_ms for each in _due(database, Limits(content_bytes=1300))]
    assert [0] == [each.due_ms for each in _due(database, Limits(content_bytes=1))]


def test_what_was_removed_is_gone(database: Database) -> None:
    """A message is removed by its id once it is sent; twice removes it once."""
    _add(database, *(new_message(due_ms=number) for number in range(1500)))
    ids = [each.id for each in _due(database, Limits(rows_a_lane=2000))]
    with database.begin() as connection:
        assert 1499 == messages.remove(connection, ids[1:])
        assert 1 == messages.remove(connection, ids)
    assert [] == _due(database)


def test_an_earlier_message_lowers_the_start_of_its_lane(database: Database) -> None:
    """A search that begins at `low_due_ms` must not step over a message that came later."""
    _add(database, new_message(due_ms=100))
    with database.begin() as connection:
        connection.execute(update(lane).values(low_due_ms=100))
    _add(database, new_message(due_ms=50), new_message(due_ms=70))
    assert [50, 70, 100] == [each.due_ms for each in _due(database)]
    with database.begin() as connection:
        assert 50 == connection.execute(select(lane.c.low_due_ms)).scalar_one()


def test_messages_are_postponed_and_sent_now(database: Database) -> None:
    """By their ids; a message that is brought forward is not stepped over."""
    _add(database, *(new_message(slot=str(n % 2), due_ms=n, retry_id=str(n)) for n in range(4)))
    ids = [each.id for each in sorted(_due(database), key=lambda each: each.due_ms)]
    with database.begin() as connection:
        assert 4 == messages.reschedule(database, connection, ids, _LATER_MS)
        connection.execute(update(lane).values(low_due_ms=_LATER_MS))
    assert [] == _due(database)
    with database.begin() as connection:
        assert 3 == messages.reschedule(database, connection, [*ids[1:], 10**9])
    assert ["1", "2", "3"] == sorted(each.retry_id for each in _due(database))


def test_what_is_due_already_keeps_its_place(database: Database) -> None:
    """Sent now, the first of a lane that was held went behind the later ones of its key."""
    _add(database, *(new_message(due_ms=n, retry_id=str(n)) for n in range(3)))
    first = _due(database)[0]
    with database.begin() as connection:
        assert 1 == messages.reschedule(database, connection, [first.id])
    assert ["0", "1", "2"] == [each.retry_id for each in _due(database)]


def test_one_message_is_read_whole(database: Database) -> None:
    """Whether it is due or not; None once it is gone."""
    _add(database, new_message(due_ms=_LATER_MS, value=b"1"))
    with database.begin() as connection:
        (found,) = messages.waiting(connection, "scheduler")
        assert found == messages.get(connection, found.id)
        messages.remove(connection, [found.id])
        assert messages.get(connection, found.id) is None


def test_all_that_waits_can_be_read_in_steps(database: Database) -> None:
    """Whatever its time and its lane, for one service."""
    _add(database, *(new_message(slot=str(n), due_ms=n * _LATER_MS // 9) for n in range(5)))
    _add(database, new_message(service="outbox"))
    with database.begin() as connection:
        first = messages.waiting(connection, "scheduler", limit=3)
        second = messages.waiting(connection, "scheduler", limit=3, after_id=first[-1].id)
    assert ["0", "1", "2", "3", "4"] == [each.slot for each in first + second]


def test_a_number_is_not_used_again(database: Database) -> None:
    """SQLite gave a new message the number of one that was gone, and a change of the old one that
    an operator had looked at changed the new one."""
    for _ in range(2):
        with database.begin() as connection:
            messages.add(database, connection, [new_message()])
    with database.begin() as connection:
        assert 1 == messages.remove(connection, [2])
        messages.add(database, connection, [new_message()])
        assert None is messages.get(connection, 2)
        assert messages.get(connection, 3) is not None


def test_what_was_sent_is_deleted_once(database: Database) -> None:
    """A copy that is restored gives its number once more, to a message that is not sent yet."""
    with database.begin() as connection:
        messages.add(database, connection, [new_message(), new_message()])
        sent = messages.waiting(connection, "scheduler")
        later = update(message).where(message.c.id == sent[1].id)
        connection.execute(later.values(stored_ms=sent[1].stored_ms + 1))
        messages.remove_sent(connection, sent)
        assert [sent[1].id] == [each.id for each in messages.waiting(connection, "scheduler")]


def test_what_was_edited_is_not_what_was_sent(database: Database) -> None:
    """A batch was under way while it was edited: it is sent once more, as it is now."""
    with database.begin() as connection:
        messages.add(database, connection, [new_message(), new_message()])
        sent = messages.waiting(connection, "scheduler")
        messages.edit(database, connection, replace(sent[0], value=b"other", slot="7"))
        messages.remove_sent(connection, sent)
        (left,) = messages.waiting(connection, "scheduler")
    assert (sent[0].id, sent[0].due_ms, b"other", "7") == (
        left.id,
        left.due_ms,
        left.value,
        left.slot,
    )
    assert [left] == _due(database)


def test_a_backlog_is_read_in_the_order_of_its_index(postgres_url: str) -> None:
    """Without statistics PostgreSQL would sort a million messages for the first ones."""
    database = Database(postgres_url)
    with database.reading() as connection:
        messages.due(database, connection, "scheduler", _ALL)
        assert "off" == connection.execute(text("SHOW enable_bitmapscan")).scalar_one()
    with database.reading() as connection:
        assert "on" == connection.execute(text("SHOW enable_bitmapscan")).scalar_one()
    database.close()
