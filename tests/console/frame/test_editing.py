"""A message comes back from a form byte for byte, whatever it holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.console.frame.editing import Draft, Part, diff_lines, draft_of, parsed
from linear_retry.dlq import Message

_CONTENT = st.none() | st.binary(max_size=60) | st.text(max_size=60).map(str.encode)
_NAMES = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=9)
_MESSAGES = st.builds(
    Message, _CONTENT, _CONTENT, st.lists(st.tuples(_NAMES, _CONTENT), max_size=3).map(tuple)
)


def _typed(part: Part) -> str:
    """What a browser sends of a text area: line ends as CR LF, and no NUL."""
    text = part.text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")
    return text.replace("\0", "\ufffd")


@given(_MESSAGES)
def test_what_was_not_changed_is_the_same(message: Message) -> None:
    """Line ends, NULs, bytes that are no text, null and empty: none is changed by the browser."""
    draft = draft_of(message)
    assert draft is not None
    fields: dict[str, list[str]] = {
        "key": [_typed(draft.key)],
        "key_form": [draft.key.form],
        "value": [_typed(draft.value)],
        "value_form": [draft.value.form],
        "header": [*(name for name, _ in draft.headers), ""],
        "header_form": [*(part.form for _, part in draft.headers), "text"],
        "header_text": [*(_typed(part) for _, part in draft.headers), "left over"],
    }
    assert message == parsed(Draft.of_form(lambda name: tuple(fields[name])))


def test_what_no_form_can_hold_is_not_edited() -> None:
    """A browser would stand still on megabytes of hex."""
    assert draft_of(Message(b"key", b"x" * 300_000)) is None


def test_a_wrong_part_is_named() -> None:
    """Half a byte is not a byte."""
    with pytest.raises(ValueError, match="header tenant: this is not pairs of hex"):
        parsed(Draft(Part("null"), Part("null"), (("tenant", Part("hex", "0")),)))
    with pytest.raises(ValueError, match="must be text, hex or null"):
        Draft.of_form(lambda name: ("gzip",))


def test_no_line_is_hidden() -> None:
    """Comments of SQL and the lines around a key begin as the heads of a diff do."""
    old, new = "a\n-- one\n@@ b", "a\n++ two\n@@ c"
    assert " a\n--- one\n-@@ b\n+++ two\n+@@ c".splitlines() == diff_lines(old, new).splitlines()
    assert "---old\n+++new" == diff_lines("--old", "++new")


def test_very_many_lines_are_counted_alone() -> None:
    """Hostile ones would keep a core busy for minutes."""
    old, new = "\n".join("ab" * 3_000), "a"
    assert "6,000 lines before, 1 after: too many to compare" == diff_lines(old, new)
