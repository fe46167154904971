"""The decoders of keys and values, and the views that a page shows of each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from linear_retry.errors import LinearRetryError
from linear_retry.records.printable import one_line

_HEX_BYTES = 16
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
_DEEPEST = 20


class Decoder(Protocol):
    """Decodes one format."""

    @property
    def name(self) -> str:
        """The name of the format, as on the page."""

    def decode(self, topic: str, content: bytes, /) -> str | None:
        """Returns the text; None if `content`, a value of `topic`, is not of this format.

        What cannot be seen in it is made visible afterwards. Raises `LinearRetryError` if it is of
        this format, and cannot be decoded.
        """


class TextDecoder:
    """UTF-8."""

    name = "text"

    def decode(self, _: str, content: bytes, /) -> str | None:
        """Returns the text, if it is UTF-8."""
        try:
            return content.decode()
        except UnicodeDecodeError:
            return None


class HexDecoder:
    """Any bytes, 16 in a line, with the characters of ASCII beside them."""

    name = "hex"

    def decode(self, _: str, content: bytes, /) -> str | None:
        """Returns the lines."""
        return "\n".join(
            f"{start:08x}  {row.hex(' '):<{3 * _HEX_BYTES}} "
            + "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
            for start in range(0, len(content), _HEX_BYTES)
            for row in (content[start : start + _HEX_BYTES],)
        )


def visible(text: str) -> str:
    """Escapes control characters but line ends and tabs, and those that turn the text around."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


class JsonDecoder:
    """Indents JSON. Numbers, repeated names and escapes stay what they were.

    It ends soon after `most_characters`: indented, a value may be many times as long as it was.
    """

    name = "JSON"

    def __init__(self, most_characters: float = float("inf")) -> None:
        self._most_characters = most_characters

    def decode(self, _: str, content: bytes, /) -> str | None:
        """Returns objects and arrays; a bare number or text is no more readable so."""
        try:
            text = content.decode()
            if not isinstance(json.loads(text), dict | list):
                return None
        except (ValueError, RecursionError):  # ValueError: UnicodeDecodeError too
            return None
        parts, length = list[str](), 0
        for part in _indented(text):
            parts.append(part)
            length += len(part)
            if length > self._most_characters:
                break
        return "".join(parts)


def _indented(text: str) -> Iterator[str]:
    depth, before = 0, ""
    for found in _TOKEN.finditer(text):
        token = found[0]
        is_end = token in ("}", "]")
        depth -= is_end
        is_empty = is_end and before in ("{", "[")
        if before in ("{", "[", ",") or is_end:
            yield "" if is_empty else "\n" + "  " * min(depth, _DEEPEST)
        yield ": " if token == ":" else token
        depth += token in ("{", "[")
        before = token


SHOWN_CHARACTERS = 8_192
_SHOWN_HEX_BYTES = 1_024
_SHORT_BYTES = 1_024
_DECODED_BYTES = 1_048_576

DECODERS: tuple[Decoder, ...] = (JsonDecoder(SHOWN_CHARACTERS), TextDecoder())


@dataclass(frozen=True, slots=True)
class View:
    """A text of a key or a value. `is_cut`: only its beginning is here."""

    name: str
    text: str
    is_cut: bool = False
    is_error: bool = False


def views(topic: str, content: bytes | None, decoders: Sequence[Decoder] = DECODERS) -> list[View]:
    """Returns the views of what a message of `topic` has, the most telling first; hex is last."""
    if not content:
        return []
    found = [view for each in decoders if (view := _view(topic, content, each)) is not None]
    start = content[:_SHOWN_HEX_BYTES]
    hex_text = HexDecoder().decode(topic, start) or ""
    return [*found, View("hex", hex_text, is_cut=len(start) < len(content))]


def _view(topic: str, content: bytes, decoder: Decoder) -> View | None:
    is_text = isinstance(decoder, TextDecoder)
    if len(content) > _DECODED_BYTES and not is_text:
        return None
    try:
        text = decoder.decode(topic, content)
    except LinearRetryError as error:
        return View(decoder.name, str(error), is_error=True)
    if text is None:
        return None
    return cut(decoder.name, text)


def cut(name: str, text: str) -> View:
    """Returns the beginning of a text, with what cannot be seen made visible."""
    # Cut before too: to look at each of millions of characters takes seconds.
    shown = visible(text[:SHOWN_CHARACTERS])
    is_cut = max(len(text), len(shown)) > SHOWN_CHARACTERS
    return View(name, shown[:SHOWN_CHARACTERS], is_cut=is_cut)


def short_text(content: bytes | None) -> str:
    """Returns a key or a header in one line: as text if it is UTF-8, else in hex; cut."""
    if content is None:
        return "null"
    try:
        return one_line(content[:_SHORT_BYTES].decode())
    except UnicodeDecodeError:
        return one_line(f"0x{content[:_SHORT_BYTES].hex()}")
