"""Prints keys, values and headers, which may be any bytes."""

from collections.abc import Iterator

from linear_retry.cli.output.rows import plural
from linear_retry.records import printable

_HEX_BYTES = 16
_CELL_BYTES = 200


def shown(found: bytes | None) -> str:
    """Returns bytes as text if they are UTF-8, else a description of them."""
    if found is None:
        return "null"
    try:
        return found.decode()
    except UnicodeDecodeError:
        return f"0x{found[:_CELL_BYTES].hex()}"


def labelled(name: str, text: str) -> Iterator[str]:
    """Yields the lines of a text behind its name."""
    first, *others = printable.lines(text) or [""]
    yield f"{name:<11} {first}".rstrip()
    yield from (f"{'':<11} {line}" for line in others)


def whole(name: str, content: bytes | None, *, payload: bool) -> Iterator[str]:
    """Yields the size of a key or value, and with `payload` all of it."""
    if content is None:
        yield f"{name:<11} null"
        return
    size = f"{name:<11} {plural(len(content), 'byte')}"
    yield size if payload or not content else f"{size}, not printed without --payload"
    if payload:
        yield from (f"  {line}" for line in _readable(content))


def _readable(content: bytes) -> list[str]:
    """Returns the lines of a text, or a hex dump of bytes that are not text."""
    try:
        lines = content.decode().split("\n")
    except UnicodeDecodeError:
        return _hex(content)
    return lines if all(map(str.isprintable, lines)) else _hex(content)


def _hex(content: bytes) -> list[str]:
    return [
        f"{start:08x}  {row.hex(' '):<{3 * _HEX_BYTES}} "
        + "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        for start in range(0, len(content), _HEX_BYTES)
        for row in (content[start : start + _HEX_BYTES],)
    ]
