"""Headers survive the store byte for byte."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from linear_retry.records.text import Header
from linear_retry.store import header_bytes

_NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_HEADERS = st.lists(st.tuples(_NAMES, st.none() | st.binary(max_size=50)), max_size=8)


@given(_HEADERS)
@example([("a", None), ("a", b""), ("", b"\x00\xff"), ("a", b"1")])
def test_headers_come_back(headers: list[Header]) -> None:
    """Order, duplicates, empty names, null and empty values are kept."""
    assert tuple(headers) == header_bytes.read(header_bytes.write(headers))


@given(_HEADERS.filter(bool), st.data())
def test_headers_that_are_cut_short_are_refused(headers: list[Header], data: st.DataObject) -> None:
    """A row that was damaged is not sent with fewer headers, unless whole headers are missing."""
    content = header_bytes.write(headers)
    cut = content[: data.draw(st.integers(0, len(content) - 1))]
    whole = [header_bytes.write(headers[:count]) for count in range(len(headers))]
    if cut in whole:
        return
    with pytest.raises(ValueError, match="header"):
        header_bytes.read(cut)


def test_a_length_below_that_of_null_is_refused() -> None:
    """Other bytes than ours are not read as headers."""
    with pytest.raises(ValueError, match="the header at byte 0 is cut short"):
        header_bytes.read(b"\0\0\0\0\xff\xff\xff\xfe")
