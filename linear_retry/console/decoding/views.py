"""The views of a key or a value: each decoder's text, cut where it is long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from linear_retry.console.decoding.decoder import Decoder, HexDecoder, TextDecoder, visible
from linear_retry.console.decoding.json_text import JsonDecoder
from linear_retry.errors import LinearRetryError
from linear_retry.records.printable import one_line

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
