"""JSON on several lines, each token as it was sent."""

import json
import re
from collections.abc import Iterator

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
_DEEPEST = 20


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
