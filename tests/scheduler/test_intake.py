"""The intake's batches: each record is in the store once, whatever ends in between."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message
from sqlalchemy import Connection, select

from linear_retry.errors import StoreError
from linear_retry.scheduler import positions
from linear_retry.scheduler.destinations import Destinations
from linear_retry.scheduler.intake import Intake, PositionMovedError
from linear_retry.store.database import Database
from linear_retry.store.schema import dead_letter, message

_TOPIC = "billing.scheduled"
PARTITION = (_TOPIC, 0)
CLUSTER = "cluster"
DESTINATIONS = Destinations(_TOPIC, ("orders",))


def _record(offset: int, **changes: Any) -> Message:
    headers = [("retry-destination", b"orders"), ("retry-at-ms", b"0")]
    content: dict[str, Any] = {"key": b"key", "value": b"%d" % offset, "headers": headers}
    return Message(
        topic=_TOPIC,
        partition=0,
        offset=offset,
        timestamp=(TIMESTAMP_CREATE_TIME, 1_767_225_600_000),
        **content | changes,
    )


def batch(first: int, count: int) -> list[Message]:
    return [_record(offset) for offset in range(first, first + count)]


def _intake(database: Database) -> Intake:
    """That of an instance to which the partition was assigned."""
    intake = Intake(database, DESTINATIONS, CLUSTER)
    intake.start_positions([PARTITION])
    return intake


def values(database: Database) -> list[bytes]:
    with database.reading() as connection:
        return [*connection.scalars(select(message.c.value).order_by(message.c.id))]


def _position(database: Database) -> int | None:
    with database.reading() as connection:
        return positions.read(database, connection, CLUSTER, *PARTITION)


def _numbers(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def test_a_batch_and_where_to_continue(database: Database) -> None:
    """They are in the store together; the next assignment begins there."""
    intake = Intake(database, DESTINATIONS, CLUSTER)
    assert {PARTITION: None} == intake.start_positions([PARTITION])
    intake.store(batch(5, 3))
    intake.store(batch(10, 2))  # transaction markers lay between
    assert (_numbers(5, 3) + _numbers(10, 2), 12) == (values(database), _position(database))
    both = intake.start_positions([PARTITION, (_TOPIC, 1)])
    assert {PARTITION: 12, (_TOPIC, 1): None} == both


def test_what_is_stored_is_dropped(database: Database) -> None:
    """A zombie's batch, or one whose commit was not answered: nothing of it is stored twice."""
    intake, zombie = _intake(database), _intake(database)
    intake.store(batch(0, 4))
    zombie.store(batch(0, 2))
    assert (_numbers(0, 4), 4) == (values(database), _position(database))
    zombie.store(batch(2, 4))
    assert (_numbers(0, 6), 6) == (values(database), _position(database))
    intake.store(batch(4, 3))
    assert (_numbers(0, 7), 7) == (values(database), _position(database))


class _Dying(Database):
    """A store whose connection breaks at the end of a transaction: before or after its commit."""

    breaks: str = ""

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        with super().begin() as connection:
            yield connection
            if self.breaks == "before":
                raise StoreError("the connection broke")
        if self.breaks == "after":
            raise StoreError("the connection broke")


@pytest.mark.parametrize("breaks", ["before", "after"])
def test_a_batch_is_repeated_whole(store_url: str, breaks: str) -> None:
    """Whether its commit arrived or not: afterwards it is there once."""
    database = _Dying(store_url)
    intake = _intake(database)
    intake.store(batch(0, 2))
    database.breaks = breaks
    with pytest.raises(StoreError):
        intake.store(batch(2, 3))
    assert (2 if breaks == "before" else 5) == _position(database)
    database.breaks = ""
    intake.store(batch(2, 3))
    assert (_numbers(0, 5), 5) == (values(database), _position(database))
    database.close()


@pytest.mark.parametrize("position", [None, 3])
def test_an_older_store_is_noticed(database: Database, position: int | None) -> None:
    """A restored copy lacks what was stored since: the batch is refused, and an assignment begins
    where the copy ends."""
    intake = _intake(database)
    intake.store(batch(0, 6))
    with database.begin() as connection:
        connection.execute(message.delete())
        if position is None:
            connection.exec_driver_sql("delete from linear_retry_position")
        else:
            positions.write(database, connection, CLUSTER, *PARTITION, position)
    with pytest.raises(PositionMovedError, match=f"up to offset {position}, and was up to 6"):
        intake.store(batch(6, 1))
    assert [] == values(database)
    assert {PARTITION: position} == intake.start_positions([PARTITION])
    intake.store(batch(position or 0, 4))
    assert _numbers(position or 0, 4) == values(database)


def test_an_older_store_is_noticed_by_who_was_late(database: Database) -> None:
    """A batch that another had stored, and more: the store is expected to have all of that."""
    late = _intake(database)
    _intake(database).store(batch(0, 6))
    late.store(batch(0, 2))
    late.check()
    with database.begin() as connection:
        positions.write(database, connection, CLUSTER, *PARTITION, 4)
    with pytest.raises(PositionMovedError, match="up to offset 4, and was up to 6"):
        late.check()


def test_what_nobody_can_read_is_passed(database: Database) -> None:
    """Markers and aborted records behind the last message: the position goes behind them, and
    never back, nor over what another has stored."""
    intake, other = _intake(database), _intake(database)
    other.store(batch(0, 4))
    intake.pass_ends({PARTITION: 9})
    assert 4 == _position(database)  # it has nothing of that partition
    intake.start_positions([PARTITION])
    for offset in (7, 5):
        intake.pass_ends({PARTITION: offset})
        assert 7 == _position(database)
    other.store(batch(7, 2))
    intake.pass_ends({PARTITION: 8})
    assert 9 == _position(database)
    intake.store(batch(9, 1))
    assert _numbers(0, 4) + _numbers(7, 3) == values(database)


def test_where_a_partition_begins_is_known_from_then_on(database: Database) -> None:
    """It is stored once; who comes later is told what is stored by then."""
    intake, other = _intake(database), _intake(database)
    assert {PARTITION: 3} == intake.begin_at({PARTITION: 3})
    intake.store(batch(3, 2))
    assert {PARTITION: 5} == other.begin_at({PARTITION: 0})


def _dead(database: Database) -> Sequence[Any]:
    with database.reading() as connection:
        return connection.execute(select(dead_letter).order_by(dead_letter.c.id)).all()


def test_a_thousand_garbled_in_a_row(database: Database) -> None:
    """All are dead in the store, byte for byte, and the good one behind them is stored."""
    intake = _intake(database)
    garbage = [
        _record(number, key=bytes([number % 256]) * 9000, headers=[("retry-at-ms", b"\0\xff")])
        for number in range(1000)
    ]
    intake.store(garbage[:500])
    intake.store([*garbage[500:], _record(1000)])
    dead = _dead(database)
    assert 1000 == len(dead)
    assert {("unreadable", "scheduler")} == {(each.reason, each.service) for each in dead}
    assert [b"%d" % number for number in range(1000)] == [each.value for each in dead]
    assert [b"1000"] == values(database)


def test_texts_that_a_database_refuses(database: Database) -> None:
    """An id of 100 kB, a NUL, half a character: nothing of a header stops the intake."""
    nasty = [b"x" * 100_000, b"\0", b"\xed\xa0\x80", "☃".encode() * 5000]
    intake = _intake(database)
    for offset, text in enumerate(nasty):
        headers = [
            *(("retry-id", text), ("retry-group-id", text), ("other", text)),
            *(("retry-destination", b"orders"), ("retry-at-ms", text)),
        ]
        intake.store([_record(2 * offset, headers=headers)])
        headers[-1] = ("retry-at-ms", b"0")
        intake.store([_record(2 * offset + 1, headers=headers)])
    assert (len(nasty), len(nasty)) == (len(_dead(database)), len(values(database)))
