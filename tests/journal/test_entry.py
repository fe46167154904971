"""An entry is read back as it was written, and whatever else is there is refused."""

import json
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry import Scope, events
from linear_retry.events import Event
from linear_retry.journal.entry import Entry, Unreadable, encode, read_entry
from tests.journal.entry_corpus import CORPUS
from tests.journal.journal_entries import entries

_TYPES: tuple[type[Any], ...] = get_args(Event)
_COMMON = {"v", "event_id", "at_ms", "group", "member", "event"}
_WHOLE_MS = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)


def _opened(**changes: Any) -> dict[str, Any]:
    """The JSON of one entry, with these fields otherwise."""
    event = events.CircuitOpened(Scope(), "orders", 3, 42, "error", 2, 1.5, _WHOLE_MS)
    problem: dict[str, Any] = json.loads(encode(Entry("life", 7, 1, "billing", "pod-1", event)))
    return problem | changes


def _reason(value: object) -> str:
    entry = read_entry(json.dumps(value).encode())
    assert isinstance(entry, Unreadable)
    return entry.reason


@pytest.mark.parametrize("kind", _TYPES, ids=lambda kind: kind.__name__)
def test_what_is_written_is_read_back(kind: type[Any]) -> None:
    """`read_entry` is the inverse of `encode`, for every event and whatever is in it."""

    @given(entries(kind))
    def try_one(entry: Entry) -> None:
        assert entry == read_entry(encode(entry))

    try_one()


@pytest.mark.parametrize("kind", _TYPES, ids=lambda kind: kind.__name__)
def test_no_field_hides_another(kind: type[Any]) -> None:
    """What every entry has and what an event has are named differently."""
    assert set() == _COMMON & {field.name for field in fields(kind)}


def test_what_an_entry_looks_like() -> None:
    """Fields named as in the events, times in UTC ms, the key `group|member|scope`."""
    event = events.CircuitOpened(Scope("orders"), "orders", 3, 42, "é", 2, 1.5, _WHOLE_MS)
    entry = Entry("life", 7, 1_767_225_600_000, "billing", "pod-1", event)
    assert b"billing|pod-1|orders" == entry.key
    assert (
        b'{"v":1,"event_id":"life/7","at_ms":1767225600000,"group":"billing","member":"pod-1",'
        b'"event":"CircuitOpened","scope":{"topic":"orders","partition":null},"topic":"orders",'
        b'"partition":3,"offset":42,"error":"\\u00e9","failures":2,"delay_s":1.5,'
        b'"retry_at":1767323045678}'
    ) == encode(entry)


def test_an_event_of_no_scope_has_the_key_of_the_whole_consumer() -> None:
    """So what a member says of itself is in one partition."""
    stopped = events.Stopped(left_group=True)
    assert b"billing|pod-1|consumer" == Entry("life", 7, 1, "billing", "pod-1", stopped).key


@given(st.binary())
def test_garbled_content_raises_nothing(value: bytes) -> None:
    """Whatever is in the topic, reading goes on."""
    assert isinstance(read_entry(value), Unreadable)


@given(st.data())
def test_an_entry_that_is_garbled_raises_nothing(data: st.DataObject) -> None:
    """Any field replaced by any JSON: read, or refused with a reason."""
    kind = data.draw(st.sampled_from(_TYPES))
    problem = json.loads(encode(data.draw(entries(kind))))
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
    anything = st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["topic", "partition", "x"]), inner, max_size=3)
        ),
    )
    problem[data.draw(st.sampled_from(sorted(problem)))] = data.draw(anything)
    found = read_entry(json.dumps(problem).encode())
    assert isinstance(found, Entry) or found.reason


@pytest.mark.parametrize(
    "value",
    [
        b"[" * 100_000,
        b"null",
        b"\xff",
        b'{"v":1e999}',
        b'{"v":NaN}',
        b"1" * 10_000,
        b"\x00\x01" * 50,
        "{}".encode("utf-16"),
        None,
    ],
)
def test_what_breaks_parsers_is_refused(value: bytes | None) -> None:
    """Deep nesting, huge numbers, other encodings, a tombstone: a reason, not an exception."""
    assert isinstance(read_entry(value), Unreadable)


@pytest.mark.parametrize(("value", "is_entry"), CORPUS.items())
def test_the_corpus_is_read_as_in_spark(value: bytes, is_entry: bool) -> None:
    """Names that are there twice, huge numbers and absurd times: the same entries, or none."""
    assert is_entry == isinstance(read_entry(value), Entry)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"v": 2}, "v is 2; this release reads 1"),
        ({"v": True}, "v is True; this release reads 1"),
        ({"event": "Rebooted"}, "event is 'Rebooted', which this release does not know"),
        ({"event": None}, "event is None: a text"),
        ({"event_id": "life"}, "event_id is 'life': an instance, / and a number"),
        ({"event_id": "life/٣"}, "event_id is 'life/\\u0663': an instance, / and a number"),
        ({"offset": True}, "offset is True: a whole number of 64 bits"),
        ({"delay_s": 10**400}, f"delay_s is {'1' + '0' * 79}: a finite number"),
        ({"delay_s": None}, "delay_s is None: a finite number"),
        ({"at_ms": -1}, "at_ms is -1: milliseconds since 1970"),
        ({"retry_at": 2**60}, f"retry_at is {2**60}: milliseconds since 1970"),
        ({"retry_at": 10**30}, f"retry_at is {10**30}: a whole number of 64 bits"),
        ({"scope": {"topic": None, "partition": 3}}, None),
        (
            {"scope": {"topic": "orders", "partition": 0.5}},
            "scope is 0.5: a whole number of 64 bits",
        ),
    ],
)
def test_it_says_why(changes: dict[str, Any], reason: str | None) -> None:
    """What is wrong, where, and what would be right."""
    found = _reason(_opened(**changes))
    assert reason in (None, found)


def test_more_fields_than_are_known_are_passed_over() -> None:
    """An entry that a later release wrote is read, as far as this one knows it."""
    assert isinstance(read_entry(json.dumps(_opened(weather="rain")).encode()), Entry)
