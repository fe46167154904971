"""The intake's batches: each record is in the store once, whatever ends in between."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message
from sqlalchemy import Connection, select

from linear_retry.consumer.settings.by_key import order_of
from linear_retry.consumer.settings.inbox import AsksBrokers
from linear_retry.errors import StoreError
from linear_retry.records.dead_letter import FailureInfo, to_dead_letter
from linear_retry.records.lineage import Hop
from linear_retry.records.record import Record
from linear_retry.retry.clock import SystemClock
from linear_retry.scheduler.destinations import Destinations
from linear_retry.scheduler.intake import Intake
from linear_retry.scheduler.start import PLACES, stored_places
from linear_retry.store.application import places
from linear_retry.store.application.places import Row
from linear_retry.store.database import Database
from linear_retry.store.schema import dead_letter, message

_TOPIC = "billing.scheduled"
_PARTITION = (_TOPIC, 0)
_ID = "the topic's id"


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


def storing(database: Database) -> Callable[[list[Message]], object]:
    """The handler of an instance to which the partition was assigned, from its offset 0 on."""
    intake = Intake(database, Destinations(_TOPIC, ("orders",)), {})
    owned = intake.places("group", "group", "owner", SystemClock(), order_of(None, "group"))
    owned.check()
    row = Row(PLACES, _ID, 0)
    with database.begin() as connection:
        begun = places.claim(connection, database, row, _TOPIC, "before it")
        assert begun is not None
        places.put(connection, database, row, begun.epoch, 0)
    brokers = AsksBrokers(lambda names: dict.fromkeys(names, _ID), lambda *_: False)
    assert {_PARTITION: 0} == owned.claim(brokers, [_PARTITION])
    owned.starts(_PARTITION, 0, is_another_log=False)
    return owned.handling_batches(intake.store)


def values(database: Database) -> list[bytes]:
    with database.reading() as connection:
        return [*connection.scalars(select(message.c.value).order_by(message.c.id))]


def _place(database: Database) -> int:
    with database.reading() as connection:
        return stored_places(connection, _ID)[0]


def _numbers(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def test_a_batch_and_where_to_continue(database: Database) -> None:
    """They are in the store together."""
    store = storing(database)
    store(batch(5, 3))
    store(batch(10, 2))  # transaction markers lay between
    assert (_numbers(5, 3) + _numbers(10, 2), 12) == (values(database), _place(database))


def test_each_delay_of_a_message_is_kept(database: Database) -> None:
    """They have one id: whoever handles a message would take the second for one that came back."""
    store = storing(database)
    hop = Hop(_TOPIC, 1, "inline@0123456789ab", 1_767_225_700_000)
    failure = FailureInfo("billing", "transient", 1, 0, 0, "inline@0123456789ab", hop=hop)
    source = Record("orders", 3, 7, 1_767_225_600_000, None, b"")
    headers = to_dead_letter(source, failure).headers()
    same = [_record(offset, headers=headers, value=b"same") for offset in range(3)]
    store(same[:1])
    store(same[1:])
    assert [b"same"] * 3 == values(database)


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
    store = storing(database)
    store(batch(0, 2))
    database.breaks = breaks
    with pytest.raises(StoreError):
        store(batch(2, 3))
    assert (2 if breaks == "before" else 5) == _place(database)
    database.breaks = ""
    store(batch(2, 3))
    assert (_numbers(0, 5), 5) == (values(database), _place(database))
    database.close()


def _dead(database: Database) -> Sequence[Any]:
    with database.reading() as connection:
        return connection.execute(select(dead_letter).order_by(dead_letter.c.id)).all()


def test_a_thousand_garbled_in_a_row(database: Database) -> None:
    """All are dead in the store, byte for byte, and the good one behind them is stored."""
    store = storing(database)
    garbage = [
        _record(number, key=bytes([number % 256]) * 9000, headers=[("retry-at-ms", b"\0\xff")])
        for number in range(1000)
    ]
    store(garbage[:500])
    store([*garbage[500:], _record(1000)])
    dead = _dead(database)
    assert 1000 == len(dead)
    assert {("unreadable", "scheduler")} == {(each.reason, each.service) for each in dead}
    assert [b"%d" % number for number in range(1000)] == [each.value for each in dead]
    assert [b"1000"] == values(database)


def test_texts_that_a_database_refuses(database: Database) -> None:
    """An id of 100 kB, a NUL, half a character: nothing of a header stops the intake."""
    nasty = [b"x" * 100_000, b"\0", b"\xed\xa0\x80", "☃".encode() * 5000]
    store = storing(database)
    for offset, text in enumerate(nasty):
        headers = [
            *(("retry-id", text), ("retry-group-id", text), ("other", text)),
            *(("retry-destination", b"orders"), ("retry-at-ms", text)),
        ]
        store([_record(2 * offset, headers=headers)])
        headers[-1] = ("retry-at-ms", b"0")
        store([_record(2 * offset + 1, headers=headers)])
    assert (len(nasty), len(nasty)) == (len(_dead(database)), len(values(database)))
