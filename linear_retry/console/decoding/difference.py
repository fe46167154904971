"""What differs between two messages, as lines for people."""

from __future__ import annotations

from difflib import unified_diff

from linear_retry.console.decoding.views import JsonDecoder, visible
from linear_retry.dlq import Message

_DIFF_HEAD_LINES = 2
_MOST_LINES = 5_000
"""More, if many are alike, would take minutes of a core."""


def changes(before: Message, after: Message) -> list[tuple[str, str]]:
    """Returns what differs, by name: lines of a diff."""
    parts = [("key", before.key, after.key), ("value", before.value, after.value)]
    found = [(name, _diff(old, new)) for name, old, new in parts if old != new]
    if before.headers != after.headers:
        old, new = (
            "\n".join(f"{name} = {_text(value)}" for name, value in each.headers)
            for each in (before, after)
        )
        found.append(("headers", diff_lines(old, new)))
    return found


def diff_lines(old: str, new: str) -> str:
    """Returns the lines that differ, each after - or +, and two around them.

    Of very many it says only how many there are.
    """
    before, after = (visible(each).split("\n") for each in (old, new))
    if max(len(before), len(after)) > _MOST_LINES:
        return f"{len(before):,} lines before, {len(after):,} after: too many to compare"
    lines = list(unified_diff(before, after, lineterm="", n=2))[_DIFF_HEAD_LINES:]
    # A line of the text begins with a space, + or - here, and so never with @@.
    return "\n".join(line for line in lines if not line.startswith("@@"))


def _diff(old: bytes | None, new: bytes | None) -> str:
    as_json = [None if each is None else JsonDecoder().decode("", each) for each in (old, new)]
    if None not in as_json and as_json[0] != as_json[1]:
        return diff_lines(*(text or "" for text in as_json))
    return diff_lines(_text(old), _text(new))


def _text(content: bytes | None) -> str:
    if content is None:
        return "null"
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.hex(" ", 4)
