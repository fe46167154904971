"""Messages that wait are listed page by page, without their values."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from linear_retry.store import messages
from linear_retry.store.database import Database
from linear_retry.store.listing.filters import MessageFilter
from linear_retry.store.listing.messages import ListedMessage, count, ids, page
from linear_retry.store.records import NewMessage
from linear_retry.store.schema import lane
from tests.store.contents import new_message

_LATER_MS = 2**53
_MESSAGES = [
    new_message(
        destination=f"topic-{number % 3}",
        slot=str(number % 2),
        due_ms=number * 7 % 10,
        retry_id=f"id {number}",
        key=None if number % 4 == 0 else b"\x00" * (number % 4),
        group_id=None if number % 5 == 0 else f"group {number % 5}",
        service="outbox" if number % 7 == 0 else "scheduler",
    )
    for number in range(60)
]
_HELD = ("topic-1", "1")
_FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "service": st.sampled_from(["scheduler", "outbox"]),
        "destination": st.sampled_from(["topic-0", "topic-1", "topic-9"]),
        "group_id": st.sampled_from(["group 1", "none"]),
        "retry_id": st.sampled_from(["id 4", "id 5", "none"]),
        "key": st.sampled_from([b"\x00", b""]),
        "since_ms": st.integers(0, 10),
        "until_ms": st.integers(0, 10),
        "is_held": st.booleans(),
        "error": st.sampled_from(["REFUSED 100%", "100_"]),
    },
)


@pytest.fixture
def filled(database: Database) -> Database:
    """A store with `_MESSAGES`, of which one destination's lane is on hold in each service."""
    with database.begin() as connection:
        messages.add(database, connection, _MESSAGES)
        held = update(lane).where(lane.c.destination == _HELD[0], lane.c.slot == _HELD[1])
        connection.execute(held.values(hold_until_ms=_LATER_MS, error="orders[0]: refused 100%"))
    return database


def _is_wanted(each: NewMessage, wanted: MessageFilter) -> bool:
    is_held = (each.destination, each.slot) == _HELD
    equal = ("service", "destination", "group_id", "retry_id", "key")
    return (
        all(getattr(wanted, name) in (None, getattr(each, name)) for name in equal)
        and (wanted.since_ms is None or each.due_ms >= wanted.since_ms)
        and (wanted.until_ms is None or each.due_ms < wanted.until_ms)
        and wanted.is_held in (None, is_held)
        and (wanted.error is None or (is_held and wanted.error == "REFUSED 100%"))
    )


def _pages(database: Database, wanted: MessageFilter, limit: int) -> Iterator[ListedMessage]:
    after = None
    while True:
        with database.reading() as connection:
            rows = page(database, connection, wanted, limit=limit, after=after)
        yield from rows
        if len(rows) < limit:
            return
        after = rows[-1].place


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given_filter=_FILTERS, limit=st.integers(1, 70))
def test_pages_together_are_what_is_wanted(
    filled: Database, given_filter: dict[str, object], limit: int
) -> None:
    """Each message once, by the time it is due and then its arrival, whatever the pages' size."""
    wanted = MessageFilter(**given_filter)  # type: ignore[arg-type]
    expected = [each for each in _MESSAGES if _is_wanted(each, wanted)]
    found = list(_pages(filled, wanted, limit))
    assert sorted(expected, key=lambda each: each.due_ms) == [
        _MESSAGES[int(each.retry_id.removeprefix("id "))] for each in found
    ]
    assert sorted(found, key=lambda each: each.place) == found
    with filled.reading() as connection:
        assert len(expected) == count(filled, connection, wanted)
        assert min(limit, len(expected)) == count(filled, connection, wanted, limit=limit)
        assert {each.id for each in found} == set(ids(filled, connection, wanted, limit=100))


def test_a_row_says_what_waits(filled: Database) -> None:
    """All but value and headers; of the value, its length."""
    with filled.begin() as connection:
        messages.add(filled, connection, [new_message(destination="new", value=bytes(100_000))])
        messages.add(filled, connection, [new_message(destination="new", value=None, due_ms=1)])
        now_ms = filled.now_ms(connection)
    with filled.reading() as connection:
        row, tombstone = page(filled, connection, MessageFilter(destination="new"), limit=9)
        (held, *_) = page(filled, connection, MessageFilter(is_held=True), limit=1)
    assert ("scheduler", "new", "0", 0) == (row.service, row.destination, row.slot, row.due_ms)
    assert (100_000, None) == (row.value_bytes, tombstone.value_bytes)
    assert ("billing", "billing.scheduled[0]@1") == (row.group_id, row.origin)
    assert (b"key", 0, None) == (row.key, row.hold_until_ms, row.error)
    assert now_ms - 60_000 < row.stored_ms <= now_ms
    assert (_LATER_MS, "orders[0]: refused 100%") == (held.hold_until_ms, held.error)
