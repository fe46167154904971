"""Dead letters of the store are kept whole, forwarded, edited and removed."""

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import fields, replace

import pytest
from sqlalchemy import Connection, select, text, update

from linear_retry.store import dead_letters, messages
from linear_retry.store.database import Database
from linear_retry.store.lanes import LEASES
from linear_retry.store.records import NewDeadLetter, Service, StoredDeadLetter, StoredMessage
from linear_retry.store.schema import dead_letter, lane
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.store.contents import new_dead_letter, new_message

_LATER_MS = 2**53
_BINARY = {
    "key": random.Random(1).randbytes(5_000),
    "value": bytes(1_000_000),
    "headers": (("a", b"\x00\xff"), ("a", None)),
}


def _add(database: Database, *letters: NewDeadLetter) -> list[int]:
    with database.begin() as connection:
        dead_letters.add(database, connection, letters)
    return _ids(database)


def _ids(database: Database) -> list[int]:
    with database.begin() as connection:
        return list(connection.execute(select(dead_letter.c.id).order_by("id")).scalars())


def _get(database: Database, letter_id: int) -> StoredDeadLetter:
    with database.begin() as connection:
        found = dead_letters.get(connection, letter_id)
    assert found is not None
    return found


def _due(database: Database, service: Service = "scheduler") -> list[StoredMessage]:
    with database.begin() as connection:
        return messages.due(database, connection, service, range(LEASES))


@pytest.mark.parametrize(
    "content", [_BINARY, {"key": None, "value": None, "headers": (), "retry_id": "a" * 10_000}]
)
def test_a_dead_letter_is_kept_whole(database: Database, content: dict[str, object]) -> None:
    """Long keys and ids too: no index refuses them."""
    added = new_dead_letter(**content)
    (letter_id,) = _add(database, added)
    found = _get(database, letter_id)
    for field in fields(NewDeadLetter):
        assert getattr(added, field.name) == getattr(found, field.name)


def test_waiting_messages_become_dead_letters(database: Database) -> None:
    """Byte for byte, each with the partition of its lane; the others wait on."""
    with database.begin() as connection:
        slots = ("0", "7", "key-3", "0")
        added = [new_message(slot=slot, retry_id=f"{n}", **_BINARY) for n, slot in enumerate(slots)]
        messages.add(database, connection, added)
    *dying, kept = sorted(_due(database), key=lambda each: each.retry_id)
    with database.begin() as connection:
        ids = [each.id for each in dying]
        count = dead_letters.add_waiting(database, connection, ids, reason="too-large", error="a\0")
    assert 3 == count
    assert [kept] == _due(database)
    found = sorted(
        (_get(database, each) for each in _ids(database)), key=lambda each: each.retry_id
    )
    assert [0, 7, None] == [each.partition for each in found]
    for each, before in zip(found, dying, strict=True):
        assert ("too-large", "a\ufffd", "orders") == (each.reason, each.error, each.destination)
        assert (before.key, before.value, before.headers) == (each.key, each.value, each.headers)


def test_forwarded_letters_wait_due_now(database: Database) -> None:
    """In the order of their death, each in its lane, byte for byte; they are no dead letters."""
    ids = _add(
        database,
        new_dead_letter(partition=None, retry_id="by key", **_BINARY),
        new_dead_letter(partition=3, retry_id="first"),
        new_dead_letter(partition=3, retry_id="second"),
        new_dead_letter(partition=None, key=None, retry_id="any"),
        new_dead_letter(retry_id="not chosen"),
    )
    with database.begin() as connection:
        assert 4 == dead_letters.forward(database, connection, ids[:4])
        assert 0 == dead_letters.forward(database, connection, ids[:4])
    found = {each.retry_id: each for each in _due(database)}
    assert {"by key", "first", "second", "any"} == set(found)
    assert ("3", "3", "any") == (*(found[name].slot for name in ("first", "second", "any")),)
    assert found["first"].id < found["second"].id
    by_key = found["by key"]
    assert _BINARY == {name: getattr(by_key, name) for name in _BINARY}
    assert by_key.slot.startswith("key-")
    assert ids[4:] == _ids(database)


def test_a_forwarded_letter_is_found_by_a_search_that_begins_later(database: Database) -> None:
    """Its lane's lowest due time is lowered with it."""
    with database.begin() as connection:
        messages.add(database, connection, [new_message(due_ms=_LATER_MS)])
        connection.execute(update(lane).values(low_due_ms=_LATER_MS))
    ids = _add(database, new_dead_letter())
    with database.begin() as connection:
        dead_letters.forward(database, connection, ids)
    assert 1 == len(_due(database))


def test_a_letter_without_a_destination_stays(database: Database) -> None:
    """A bulk of letters is not stopped by one that can only be edited."""
    ids = _add(database, new_dead_letter(destination="", reason="unreadable"), new_dead_letter())
    with database.begin() as connection:
        assert 1 == dead_letters.forward(database, connection, ids)
    assert ids[:1] == _ids(database)


@pytest.mark.parametrize(
    ("service", "names"),
    [("outbox", ("retry-message-id",)), ("scheduler", ("retry-id", "retry-message-id"))],
)
def test_an_edited_letter_is_another_message(
    database: Database, service: Service, names: tuple[str, ...]
) -> None:
    """It has a new id, and names the one that it was made of."""
    ids = (("retry-id", b"old"), ("retry-message-id", b"old"), ("retry-edited-from", b"older"))
    headers = (("a", b"1"), *ids, ("a", None))
    (letter_id,) = _add(database, new_dead_letter(retry_id="old", headers=headers, service=service))
    edited = replace(
        _get(database, letter_id), value=b"new", destination="payments", partition=None
    )
    with database.begin() as connection:
        retry_id = dead_letters.forward_edited(database, connection, edited)
        assert dead_letters.forward_edited(database, connection, edited) is None
    (found,) = _due(database, service)
    assert retry_id == found.retry_id != "old"
    assert ("payments", b"new") == (found.destination, found.value)
    new = tuple((name, found.retry_id.encode()) for name in names)
    expected = (("a", b"1"), ("a", None), *new, ("retry-edited-from", b"old"))
    assert expected == found.headers
    assert [] == _ids(database)


def test_an_edited_letter_needs_a_destination(database: Database) -> None:
    """It is refused, and stays."""
    ids = _add(database, new_dead_letter(destination=""))
    edited = _get(database, ids[0])
    with database.begin() as connection, pytest.raises(ValueError, match="no destination"):
        dead_letters.forward_edited(database, connection, edited)
    assert ids == _ids(database)


def test_removed_letters_are_gone(database: Database) -> None:
    """By their ids, and no others."""
    ids = _add(database, *(new_dead_letter() for _ in range(3)))
    with database.begin() as connection:
        assert 2 == dead_letters.remove(connection, ids[:2])
        assert dead_letters.get(connection, ids[0]) is None
    assert ids[2:] == _ids(database)


def test_a_message_that_is_removed_meanwhile_is_no_dead_letter(postgres_url: str) -> None:
    """It was sent: as a dead letter it would be sent again."""
    with closing(Database(postgres_url)) as database, ThreadPoolExecutor(1) as pool:
        with database.begin() as connection:
            messages.add(database, connection, [new_message()])
        (sent,) = _due(database)

        def die() -> int:
            with database.begin() as connection:
                return dead_letters.add_waiting(
                    database, connection, [sent.id], reason="exhausted", error=""
                )

        with database.begin() as connection:
            messages.remove(connection, [sent.id])
            dying = pool.submit(die)
            wait_until(lambda: _is_waited_for(connection), "the other waits")
        assert 0 == dying.result(PATIENCE_S)
        assert [] == _ids(database)


def _is_waited_for(connection: Connection) -> bool:
    waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    return bool(connection.execute(waiting).scalar_one())
