"""A filter is an address that can be shared."""

from dataclasses import replace
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.console.letters.conditions import DONE, LetterFilter, Selection
from linear_retry.console.letters.query_string import (
    UnreadableError,
    query_of,
    read_filter,
    read_selection,
    selection_text,
)
from linear_retry.dlq.letters.letter import State

_TEXT = st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
_NAME = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="="), min_size=1)
_TIME = st.none() | st.integers(0, 4_000_000_000_000)
_FILTERS = st.builds(
    LetterFilter,
    error=_TEXT,
    pattern=_TEXT,
    text=st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=3, max_size=20),
    not_text=_TEXT,
    key=st.none() | st.binary(min_size=1, max_size=20),
    no_key=st.booleans(),
    header=st.none() | st.tuples(_NAME, st.binary(max_size=20)),
    group_id=_TEXT,
    origin=_TEXT,
    not_origin=_TEXT,
    reason=_TEXT,
    since_ms=_TIME,
    until_ms=_TIME,
    name=_TEXT,
    states=st.sampled_from([(), DONE, *((state,) for state in State)]),
)


@given(_FILTERS)
def test_a_filter_survives_its_address(wanted: LetterFilter) -> None:
    """Whatever is in its texts, and whatever bytes its key has."""
    assert wanted == read_filter(dict(parse_qsl(urlencode(query_of(wanted)))))


@given(_FILTERS, st.integers(0, 2**40))
def test_a_selection_survives_a_form(wanted: LetterFilter, number: int) -> None:
    """With the moment at which its letters were counted."""
    selection = Selection("orders.dlq", wanted, number, "0f3a", number + 1)
    assert selection == read_selection("orders.dlq", selection_text(selection))


def test_an_empty_form_selects_the_open_letters() -> None:
    """A form sends all its fields, empty ones too."""
    empty = dict.fromkeys(("text", "group", "origin", "key", "id", "since", "until"), "")
    assert LetterFilter() == read_filter(empty)
    assert replace(LetterFilter(), states=()) == read_filter(empty | {"state": "all"})


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"since": "yesterday"}, "since is 'yesterday': it must be a time such as"),
        ({"until": "9999-12-31T23:59:59-23:59"}, "until is"),
        ({"text": "zq"}, "the text is 'zq': it must have at least 3 characters"),
        ({"key": "0xzz"}, "after 0x there must be pairs of hexadecimal digits"),
        ({"header": "tenant"}, "the header is 'tenant': it must be a name and a value"),
        ({"header": "tenant=0x1"}, "the header's value is '0x1': after 0x there must be pairs"),
        ({"state": "dead"}, "must be one of all, done, open, replayed, resolved, retry"),
    ],
)
def test_what_cannot_be_read_is_named(query: dict[str, str], text: str) -> None:
    """With the rule; nothing else is selected in its place."""
    with pytest.raises(UnreadableError, match=text):
        read_filter(query)
