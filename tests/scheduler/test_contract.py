"""What a record asks of the scheduler: every rule of `read_request`."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.errors import ConfigurationError
from linear_retry.records.record import Record
from linear_retry.records.text import Header, sendable
from linear_retry.scheduler.contract import read_request
from linear_retry.scheduler.destinations import Destinations, check_patterns
from linear_retry.store.records import NewDeadLetter, NewMessage

_NOW_MS = 1_767_225_600_000
_INTAKE = "billing.scheduled"
_DESTINATIONS = Destinations(_INTAKE, ("orders*", "billing.*"), dead_letters="lost")
_YEAR_MS = 365 * 86_400_000
_NEEDED: dict[str, bytes | None] = {"retry-destination": b"orders", "retry-at-ms": b"1"}


def _record(headers: tuple[Header, ...], key: bytes | None = b"key") -> Record:
    return Record(_INTAKE, 2, 7, _NOW_MS, key, b"value", headers)


def _read(**changed: bytes | None) -> NewMessage | NewDeadLetter:
    """With the two headers that are needed, these changed; None: left out."""
    headers = _NEEDED | {name.replace("_", "-"): value for name, value in changed.items()}
    found = tuple((name, value) for name, value in headers.items() if value is not None)
    return read_request(_record(found), _DESTINATIONS, _NOW_MS)


def _message(**changed: bytes | None) -> NewMessage:
    found = _read(**changed)
    assert isinstance(found, NewMessage)
    return found


def test_two_headers_are_enough() -> None:
    """A foreign system names topic and time: the key decides the partition, and the record's place,
    time and digest are its id."""
    headers = tuple(_NEEDED.items())
    assert (
        NewMessage(
            service="scheduler",
            destination="orders",
            slot="key-41",
            due_ms=1,
            key=b"key",
            value=b"value",
            headers=headers,
            retry_id="scheduler/billing.scheduled/2/7/bceac9f871e1",
            origin="billing.scheduled[2]@7",
        )
        == _message()
    )


def test_the_producers_id_is_not_the_records() -> None:
    """Reminders that a program made of one message, its headers copied to each, had one id: once
    drained, one of them that was replayed counted for all."""
    copied = _record((*_NEEDED.items(), ("retry-message-id", b"M")))
    made = [replace(copied, offset=offset) for offset in range(3)]
    found = {read_request(each, _DESTINATIONS, _NOW_MS).retry_id for each in made}
    assert 3 == len(found)


def test_what_may_be_added() -> None:
    """Partition, id and group of a record of our own are kept, to be searched by."""
    found = _message(
        retry_original_partition=b"11", retry_id=b"billing/orders/11/3/5", retry_group_id=b"billing"
    )
    assert ("11", "billing/orders/11/3/5", "billing") == (
        found.slot,
        found.retry_id,
        found.group_id,
    )


@pytest.mark.parametrize("due_ms", [0, _NOW_MS - 1, _NOW_MS + 9 * _YEAR_MS])
def test_any_time_up_to_ten_years(due_ms: int) -> None:
    """One in the past is due at once."""
    assert due_ms == _message(retry_at_ms=b"%d" % due_ms).due_ms


@pytest.mark.parametrize(
    ("changed", "reason", "says"),
    [
        ({"retry_destination": None}, "unreadable", "retry-destination is missing"),
        ({"retry_destination": b""}, "unreadable", "retry-destination has 0 bytes"),
        ({"retry_destination": b"a" * 300}, "unreadable", "300 bytes: must be the name of a topic"),
        ({"retry_destination": b"or\xff"}, "unreadable", "has 3 bytes"),
        ({"retry_destination": b"or\0ders"}, "unreadable", "has 7 bytes"),
        ({"retry_destination": b".."}, "unreadable", "must be the name of a topic"),
        ({"retry_destination": b"refunds"}, "not-allowed", "--allow has orders*, billing.*"),
        ({"retry_destination": _INTAKE.encode()}, "not-allowed", "the scheduler's own topic"),
        ({"retry_destination": b"__consumer_offsets"}, "not-allowed", "an internal topic"),
        ({"retry_destination": b"orders.dlq"}, "not-allowed", "a dead-letter topic"),
        ({"retry_destination": b"orders.billing-dlq"}, "not-allowed", "a dead-letter topic"),
        ({"retry_destination": b"orders.dlq.resolved"}, "not-allowed", "a dead-letter topic"),
        ({"retry_destination": b"lost"}, "not-allowed", "a dead-letter topic"),
        ({"retry_at_ms": None}, "unreadable", "retry-at-ms is missing"),
        ({"retry_at_ms": b"soon"}, "unreadable", "retry-at-ms has 4 bytes"),
        ({"retry_at_ms": b"-1"}, "unreadable", "must be a number from 0"),
        ({"retry_at_ms": b"1e12"}, "unreadable", "must be a number from 0"),
        ({"retry_at_ms": b"9" * 5000}, "unreadable", "must be a number from 0"),
        ({"retry_at_ms": b"%d" % (_NOW_MS + 40 * _YEAR_MS)}, "too-far", "at most 10 years"),
        ({"retry_at_ms": b"%d" % (_NOW_MS * 1000)}, "too-far", "not microseconds"),
        (
            {"retry_original_partition": b"two"},
            "unreadable",
            "retry-original-partition has 3 bytes",
        ),
        ({"retry_original_partition": b"2147483648"}, "unreadable", "0 to 2147483647"),
    ],
)
def test_what_cannot_be_sent_is_dead(
    changed: dict[str, bytes | None], reason: str, says: str
) -> None:
    """It stops nobody: it is kept with the header's name and the rule, and no bytes of it."""
    found = _read(**changed)
    assert isinstance(found, NewDeadLetter)
    assert reason == found.reason
    assert says in found.error
    assert (b"key", b"value") == (found.key, found.value)
    assert "billing.scheduled[2]@7" == found.origin


def test_the_last_of_two_counts() -> None:
    """As in every reader of retry headers; both are sent on."""
    headers = (("retry-destination", b"orders.dlq"), *_NEEDED.items())
    found = read_request(_record(headers), _DESTINATIONS, _NOW_MS)
    assert isinstance(found, NewMessage)
    assert ("orders", headers) == (found.destination, found.headers)


def test_names_that_cannot_be_sent() -> None:
    """They are escaped, and listed beside those that an earlier writer has escaped."""
    given: list[tuple[object, object]] = [
        *_NEEDED.items(),
        ("retry-escaped-headers", b"%FE"),
        (b"\xff", b"binary"),
    ]
    headers, escaped = sendable(given)
    record = Record(_INTAKE, 0, 0, -1, None, None, headers, escaped)
    found = read_request(record, _DESTINATIONS, _NOW_MS)
    assert (
        *_NEEDED.items(),
        ("%FF", b"binary"),
        ("retry-escaped-headers", b"%FE,%FF"),
    ) == found.headers


def test_what_people_search_by_is_short() -> None:
    """An id of a megabyte stays whole in its header, and is cut in the column, at a character."""
    found = _message(retry_id="☃".encode() * 300_000, retry_group_id=b"g" * 1000)
    assert ("☃" * 170, "g" * 512) == (found.retry_id, found.group_id)
    assert 900_000 == len(dict(found.headers)["retry-id"] or b"")


_NAMES = st.sampled_from(
    [
        *("retry-destination", "retry-at-ms", "retry-original-partition", "retry-id"),
        *("retry-group-id", "retry-escaped-headers", "trace", ""),
    ]
)
_VALUES = (
    st.none()
    | st.binary(max_size=600)
    | st.sampled_from([b"orders", b"orders.dlq", b"billing.x", b"__x", b"0", b"1767225600000"])
)


@given(
    st.lists(st.tuples(_NAMES, _VALUES), max_size=8),
    st.none() | st.binary(max_size=5),
    st.integers(0, 2**62),
)
def test_never_raises(headers: list[Header], key: bytes | None, now_ms: int) -> None:
    """Whatever the headers are: a message to an allowed topic, or a dead letter; headers and key as
    they came, and texts that every database takes."""
    found = read_request(_record(tuple(headers), key), _DESTINATIONS, now_ms)
    assert (tuple(headers), key) == (found.headers, found.key)
    texts = [found.retry_id, found.group_id or "", found.destination]
    if isinstance(found, NewMessage):
        assert _DESTINATIONS.refusal(found.destination) is None
        assert found.due_ms - now_ms <= 10 * 366 * 86_400_000
        texts.append(found.slot)
    else:
        texts.append(found.error)
    for text in texts:
        assert "\0" not in text
        assert len(text.encode()) <= 1024
    assert found.retry_id


@pytest.mark.parametrize("allow", [[], [""], ["orders*", "a b"], ["^orders"], ["orders,refunds"]])
def test_patterns_that_match_nothing(allow: Any) -> None:
    """They are refused at the start, not at the first record."""
    with pytest.raises(ConfigurationError, match=re.escape("--allow")):
        check_patterns(allow)
