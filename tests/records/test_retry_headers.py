"""Retry headers are read as the shared corpus says."""

import pytest

from linear_retry.errors import DeadLetterError
from linear_retry.records.retry_headers import (
    RetryHeaders,
    read_retry_headers,
)
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
