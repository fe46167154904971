"""It is known of each letter whether somebody has dealt with it."""

import json
import sqlite3
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.dlq.letters.letter import State, read_letter
from linear_retry.dlq.reading.resolutions import Resolution, Resolutions, decoded, encoded
from linear_retry.dlq.reading.spill import DiskFullError
from linear_retry.records.dead_letter import resolutions_topic
from linear_retry.records.record import Record
from tests.dlq.sample_letters import RESOLUTIONS, our_letter

_RESOLVED = Resolution(State.RESOLVED, "ann", 1, "paid by hand")


def _record(key: str | None, value: bytes | None) -> Record:
    return Record("orders.dlq.resolved", 0, 0, 1, None if key is None else key.encode(), value)


@given(RESOLUTIONS)
def test_what_is_written_is_read(resolution: Resolution) -> None:
    """`decoded` is the inverse of `encoded`."""
    assert resolution == decoded(encoded(resolution))


@given(
    st.binary(max_size=60)
    | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(
        lambda value: json.dumps(value).encode()
    )
)
def test_what_is_no_resolution_is_none(content: bytes) -> None:
    """Garbage in the topic is nobody's resolution, and never an error."""
    assert decoded(content) is None


@pytest.mark.parametrize(
    "changed", [{"v": 2}, {"state": "open"}, {"state": 1}, {"by": None}, {"at_ms": "1"}, {"why": 1}]
)
def test_each_field_is_looked_at(changed: dict[str, object]) -> None:
    """A record that says something else than we write is none of ours: the letter stays open."""
    output = json.loads(encoded(_RESOLVED)) | changed
    assert decoded(json.dumps(output).encode()) is None


def test_the_topic_lies_beside() -> None:
    """It is named after the dead-letter topic."""
    assert "orders.dlq.resolved" == resolutions_topic("orders.dlq")


def test_a_resolution_is_of_one_generation() -> None:
    """A message that died again after its replay is open again."""
    letter = our_letter()
    with Resolutions() as resolutions:
        resolutions.add([_record(f"{letter.id}#2", encoded(_RESOLVED))])
        assert State.OPEN == resolutions.state_of(letter)


def test_what_is_garbled_resolves_nothing() -> None:
    """A garbled record counts as not there."""
    letter = our_letter()
    with Resolutions() as resolutions:
        resolutions.add([_record(letter.resolution_key, b"?"), _record(None, b"?")])
        assert State.OPEN == resolutions.state_of(letter)


@pytest.mark.parametrize(("at_ms", "state"), [(4, State.OPEN), (5, State.RESOLVED)])
def test_what_was_recorded_by_a_place_is_of_what_was_there(at_ms: int, state: State) -> None:
    """The bug: letters of other systems were named by their place alone. Those of a topic that was
    made again counted as replayed: no replay sent them, and a purge deleted them."""
    letter = read_letter(Record("orders.DLT", 1, 7, 5, b"ann", b"book"))
    earlier = encoded(replace(_RESOLVED, at_ms=at_ms))
    with Resolutions() as resolutions:
        resolutions.add([_record("foreign/orders.DLT/1/7#1", earlier)])
        assert state == resolutions.state_of(letter)
        resolutions.add([_record("foreign/orders.DLT/1/7#1", None)])
        assert State.OPEN == resolutions.state_of(letter)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.none() | RESOLUTIONS), max_size=40),
    st.integers(1, 5),
)
def test_the_last_record_of_a_key_counts(
    learned: list[tuple[int, Resolution | None]], batch: int
) -> None:
    """However the records are batched."""
    letters = [our_letter(number) for number in range(10)]
    records = [
        _record(letters[number].resolution_key, None if found is None else encoded(found))
        for number, found in learned
    ]
    with Resolutions() as resolutions:
        for start in range(0, len(records), batch):
            resolutions.add(records[start : start + batch])
        assert [dict(learned).get(number) for number in range(10)] == [
            resolutions.of(letter) for letter in letters
        ]


def test_a_full_disk_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the temporary file cannot grow, one sentence says so, and what to do."""
    connect = sqlite3.connect

    def small(*arguments: Any, **options: Any) -> sqlite3.Connection:
        database: sqlite3.Connection = connect(*arguments, **options)
        database.execute("PRAGMA max_page_count = 4")
        return database

    monkeypatch.setattr(sqlite3, "connect", small)
    letters = [_record(f"letter-{number}", encoded(_RESOLVED)) for number in range(1000)]
    with (
        Resolutions() as resolutions,
        pytest.raises(DiskFullError, match=r"disk is full.*; free space, or set SQLITE_TMPDIR"),
    ):
        resolutions.add(letters)


@pytest.mark.parametrize("garbage", [b"?", b'{"v": 2, "state": "replayed"}', b""])
def test_a_garbled_record_does_not_reopen_a_replayed_letter(garbage: bytes) -> None:
    """It was taken for a tombstone: the letter was open again, and was sent once more."""
    letter = our_letter()
    with Resolutions() as resolutions:
        for value in (encoded(_RESOLVED), garbage):
            resolutions.add([_record(letter.resolution_key, value)])
        assert _RESOLVED == resolutions.of(letter)
