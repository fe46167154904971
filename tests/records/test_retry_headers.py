"""Retry headers are read as the shared corpus says, usual ones fast and all others alike."""

import pytest
from hypothesis import given

from linear_retry.errors import DeadLetterError
from linear_retry.records.record import Record
from linear_retry.records.retry_headers import (
    EXCEPTION,
    HEADER_NAMES,
    RARE,
    USUAL,
    VERSION,
    RetryHeaders,
    read_retry_headers,
)
from linear_retry.records.text import Header
from tests.dlq.sample_letters import RECORDS, our_records
from tests.records.header_corpus import CORPUS, HeaderSet


def _read(headers: dict[str, bytes | None]) -> RetryHeaders | str:
    try:
        return read_retry_headers(headers)
    except DeadLetterError as error:
        return str(error)


@pytest.mark.parametrize("name", CORPUS)
def test_each_set_is_read_as_it_says(name: str) -> None:
    """Its fields where it is valid; else the header that is missing or garbled is named."""
    expected: HeaderSet = CORPUS[name]
    found = _read(dict(expected.headers))
    if isinstance(found, str):
        assert expected.wrong is not None
        assert f"{expected.wrong} is" in found
    else:
        assert expected.wrong is None
        assert expected.fields == {field: getattr(found, field) for field in expected.fields}


def _is_read_alike(headers: tuple[Header, ...]) -> bool:
    """Also where the version is written as none of the usual sets has it."""
    contents = dict(headers)
    return contents.get(VERSION) != b"1" or _read(contents) == _read(contents | {VERSION: b"01"})


@given(our_records() | RECORDS)
def test_the_usual_are_read_as_all_others_are(record: Record) -> None:
    """What the one match reads is what reading header by header gives."""
    assert _is_read_alike(record.headers)


@pytest.mark.parametrize("name", CORPUS)
def test_the_corpus_is_read_alike(name: str) -> None:
    """As drawn ones: also those that Hypothesis seldom finds."""
    assert _is_read_alike(CORPUS[name].headers)


def test_every_header_is_usual_or_rare() -> None:
    """A header that is new is read only once it is said how often it is there."""
    assert sorted((*USUAL, *EXCEPTION, *RARE)) == sorted(HEADER_NAMES)
