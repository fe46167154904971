"""Bytes survive JSON, and a person can read them where they are text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.records.json_fields import from_json, to_json


@given(st.none() | st.binary() | st.text().map(str.encode))
def test_bytes_come_back(content: bytes | None) -> None:
    """Byte for byte; null is not an empty value."""
    assert content == from_json(json.loads(json.dumps(to_json(content))))


def test_text_is_readable() -> None:
    """Bytes that are UTF-8 are text, all others base64."""
    assert "é" == to_json("é".encode())
    assert {"base64": "/w=="} == to_json(b"\xff")


@pytest.mark.parametrize("written", [{"base64": "?"}, {"base64": "é"}, {"base64": 1}, 17, [], {}])
def test_anything_else_is_refused(written: object) -> None:
    """As a ValueError, which the reader of a file or a request explains."""
    with pytest.raises(ValueError, match="base64"):
        from_json(written)
