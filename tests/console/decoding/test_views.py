"""Any bytes are shown as a text that is safe to look at."""

import json

from hypothesis import given
from hypothesis import strategies as st

from linear_retry.console.decoding.views import SHOWN_CHARACTERS, JsonDecoder, views


def _texts(content: bytes) -> dict[str, str]:
    return {view.name: view.text for view in views("orders", content)}


def test_json_is_indented_as_it_was_sent() -> None:
    """A number keeps its digits, a repeated name is there twice, an escape stays one."""
    found = _texts(rb'{"amount": 12.10,"amount":1e400, "of": [], "who": {"name":"\u00fc, {x}"}}')
    assert found["JSON"].splitlines() == [
        "{",
        '  "amount": 12.10,',
        '  "amount": 1e400,',
        '  "of": [],',
        '  "who": {',
        r'    "name": "\u00fc, {x}"',
        "  }",
        "}",
    ]


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda of: st.lists(of) | st.dictionaries(st.text(), of),
    )
)
def test_indented_json_means_the_same(value: object) -> None:
    """Nothing but the space between its tokens differs."""
    found = _texts(json.dumps([value]).encode())
    assert [value] == json.loads(found["JSON"])


def test_what_cannot_be_seen_is_made_visible() -> None:
    """ANSI, NUL, and characters that turn the text around do nothing to the page."""
    found = _texts("a\x1b[31m\0\u202eb\n\tc".encode())
    assert "a\\x1b[31m\\x00\\u202eb\n\tc" == found["text"]
    assert ["hex"] == list(_texts(b"\xff\xfe"))
    assert "00000000  ff fe" == _texts(b"\xff\xfe")["hex"].rstrip(" .")


def test_a_long_value_is_cut() -> None:
    """Five megabytes are neither parsed nor sent to the browser."""
    found = views("orders", b'{"a": "' + b"x" * 5_000_000 + b'"}')
    assert [("text", True), ("hex", True)] == [(view.name, view.is_cut) for view in found]
    assert all(len(view.text) <= SHOWN_CHARACTERS for view in found)
    assert [] == views("orders", None) == views("orders", b"")


def test_deep_json_is_text() -> None:
    """A hundred thousand brackets do not end the page."""
    assert "JSON" not in _texts(b"[" * 100_000 + b"]" * 100_000)


def test_json_is_not_indented_further_than_it_is_shown() -> None:
    """A hundred levels around many numbers would be hundreds of megabytes."""
    bomb = b"[" * 100 + b",".join([b"1"] * 200_000) + b"]" * 100
    assert len(JsonDecoder(1_000).decode("orders", bomb) or "") < 1_100
    shown = views("orders", bomb)[0]
    assert ("JSON", True, SHOWN_CHARACTERS) == (shown.name, shown.is_cut, len(shown.text))
