"""Headers as bytes: in order, with duplicates and null values."""

from collections.abc import Iterable
from struct import Struct

from linear_retry.records.text import Header

_LENGTHS = Struct(">Ii")  # of the name, and of the value; -1 is a null value
_NULL = -1


def write(headers: Iterable[Header]) -> bytes:
    """Returns `headers` as bytes: for each the lengths of name and value, then both.

    No headers are no bytes. `read` is the inverse. The names must be valid Unicode, as
    `sendable` makes them.
    """
    parts: list[bytes] = []
    for name, value in headers:
        encoded = name.encode()
        parts += (_LENGTHS.pack(len(encoded), _NULL if value is None else len(value)), encoded)
        if value is not None:
            parts.append(value)
    return b"".join(parts)


def read(content: bytes) -> tuple[Header, ...]:
    """Reads what `write` has written. Raises `ValueError` for any other bytes."""
    headers: list[Header] = []
    start = 0
    while start < len(content):
        if start + _LENGTHS.size > len(content):
            raise ValueError(f"the headers end within the lengths at byte {start}")
        name_bytes, value_bytes = _LENGTHS.unpack_from(content, start)
        name_start = start + _LENGTHS.size
        value_start = name_start + name_bytes
        start = value_start + max(value_bytes, 0)
        if start > len(content) or value_bytes < _NULL:
            raise ValueError(f"the header at byte {name_start - _LENGTHS.size} is cut short")
        value = None if value_bytes == _NULL else content[value_start:start]
        headers.append((content[name_start:value_start].decode(), value))
    return tuple(headers)
