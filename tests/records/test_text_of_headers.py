"""Whatever comes as a header can be sent."""

from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.records.text import escape_name, first_bytes, sendable, whole_number


class _Hostile:
    def __str__(self) -> str:
        raise LookupError("no text")


_anything: st.SearchStrategy[object] = (
    st.none()
    | st.text()
    | st.text(st.characters(categories=["Cs", "L", "Cc"]))
    | st.binary()
    | st.binary().map(bytearray)
    | st.binary().map(lambda content: memoryview(content))
    | st.integers()
    | st.floats()
    | st.builds(_Hostile)
)


@given(st.lists(st.tuples(_anything, _anything)))
def test_anything_becomes_sendable(headers: list[tuple[object, object]]) -> None:
    """Any names and values become as many headers of text without NUL and of bytes or None."""
    kept, changed = sendable(headers)
    assert len(headers) == len(kept)
    for name, value in kept:
        assert "\0" not in name
        assert name == name.encode().decode()
        assert value is None or isinstance(value, bytes)
    assert set(changed) <= {name for name, _ in kept}


@given(st.lists(st.tuples(_anything, _anything)))
def test_what_was_made_sendable_stays(headers: list[tuple[object, object]]) -> None:
    """Making headers sendable a second time changes nothing."""
    kept, _ = sendable(headers)
    assert (kept, ()) == sendable(kept)


@given(st.binary())
def test_an_escaped_name_can_be_had_back(name: bytes) -> None:
    """Escaping is injective: URL unquoting gives the name's bytes."""
    assert name == unquote_to_bytes(escape_name(name))


@pytest.mark.parametrize(
    ("name", "sent"),
    [("\ud800", "%ED%A0%80"), ("a\0b", "a%00b"), (b"a\xff", "a%FF"), (7, "*unreadable*")],
)
def test_a_name_that_cannot_be_sent_is_escaped_and_named(name: object, sent: str) -> None:
    """What would crash the client or be cut is escaped, and said to be."""
    assert (((sent, b"x"),), (sent,)) == sendable([(name, b"x")])


def test_a_name_with_a_comma_stays_one_name_in_the_list() -> None:
    """Bug: of a header whose value was no bytes the name "a,b" was read back as two names."""
    assert ((("a%2Cb", b"1"), ("a,b", b"2")), ("a%2Cb",)) == sendable([("a,b", 1), ("a,b", b"2")])


def test_a_name_with_a_percent_sign_is_read_back_as_itself() -> None:
    """Bug: whoever reads the list takes each name for escaped, and "%93t" became a byte and a t."""
    kept, changed = sendable([("%93t", 1), (b"%93t", b"2"), ("100%", b"3")])
    assert (("%2593t", b"1"), ("%2593t", b"2"), ("100%", b"3")) == kept
    assert ("%2593t", "%2593t") == changed


@pytest.mark.parametrize("name", ["", "a", "100%", "naïve", "🦊", "retry-foo"])
def test_a_sound_name_is_kept(name: str) -> None:
    """A name that can be sent is not touched, nor said to be."""
    assert (((name, None),), ()) == sendable([(name, None)])


@given(st.text(), st.integers(0, 20))
def test_a_text_is_cut_between_characters(text: str, limit_bytes: int) -> None:
    """The start fits, and is a start of the text: no character is halved."""
    start = first_bytes(text, limit_bytes)
    assert len(start.encode()) <= limit_bytes
    assert text.startswith(start)


@pytest.mark.parametrize(
    "content",
    [b"", b" 1", b"+1", b"1_0", b"1.0", "١".encode(), b"9" * 5000, b"9223372036854775808"],
)
def test_what_is_no_decimal_number_of_64_bits_is_none(content: bytes) -> None:
    """Python reads more texts as numbers than other systems do; none of these is one here."""
    assert whole_number(content) is None


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_number_of_64_bits_is_read(number: int) -> None:
    """Decimal digits of any 64-bit number are that number."""
    assert number == whole_number(str(number).encode())
