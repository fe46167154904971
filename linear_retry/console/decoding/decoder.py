"""What a decoder is: it turns bytes of one format into a text that a person reads."""

from typing import Protocol


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


_HEX_BYTES = 16


def visible(text: str) -> str:
    """Escapes control characters but line ends and tabs, and those that turn the text around."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
