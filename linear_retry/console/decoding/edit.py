"""A message as the texts of a form, and back to the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from linear_retry.dlq import Message

_LONGEST_BYTES = 262_144

Form: TypeAlias = Literal["text", "hex", "null"]


@dataclass(frozen=True, slots=True)
class Part:
    """A key, a value or a header as the text of a form."""

    form: Form
    text: str = ""

    def content(self, name: str) -> bytes | None:
        """Returns its bytes. Raises `ValueError` for wrong hex."""
        if self.form == "null":
            return None
        if self.form == "text":
            return self.text.replace("\r\n", "\n").encode("utf-8", "replace")
        try:
            return bytes.fromhex(self.text)
        except ValueError:
            raise ValueError(f"{name}: this is not pairs of hexadecimal digits") from None


@dataclass(frozen=True, slots=True)
class Draft:
    """A message as a form has it."""

    key: Part
    value: Part
    headers: tuple[tuple[str, Part], ...] = ()

    @classmethod
    def of_form(cls, texts: Callable[[str], tuple[str, ...]]) -> Draft:
        """Returns what a form has sent; `texts` returns the fields of a name, in order."""
        headers = zip(texts("header"), texts("header_form"), texts("header_text"), strict=False)
        return cls(
            _part(texts("key_form"), texts("key")),
            _part(texts("value_form"), texts("value")),
            tuple((name, _part((form,), (text,))) for name, form, text in headers if name),
        )


def draft_of(message: Message) -> Draft | None:
    """Returns the message as a form has it; None if it is too long for one."""
    contents = [message.key, message.value, *(value for _, value in message.headers)]
    if sum(len(each or b"") for each in contents) > _LONGEST_BYTES:
        return None
    headers = tuple((name, part_of(value)) for name, value in message.headers)
    return Draft(part_of(message.key), part_of(message.value), headers)


def part_of(content: bytes | None) -> Part:
    """Returns bytes as the text of a form.

    In hex if a browser would change the text: it sends each line end as CR LF, and no NUL.
    """
    if content is None:
        return Part("null")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return Part("hex", content.hex(" ", 4))
    if all(c.isprintable() or c in "\n\t" for c in text):
        return Part("text", text)
    return Part("hex", content.hex(" ", 4))


def parsed(draft: Draft) -> Message:
    """Returns the message that a form stands for. Raises `ValueError`, which says what is wrong."""
    return Message(
        draft.key.content("key"),
        draft.value.content("value"),
        tuple((name, part.content(f"header {name}")) for name, part in draft.headers),
    )


def _part(forms: tuple[str, ...], texts: tuple[str, ...]) -> Part:
    form, text = (*forms, "text")[0], (*texts, "")[0]
    for each in get_args(Form):
        if form == each:
            return Part(each, text)
    raise ValueError(f"{form[:20]!r}: must be text, hex or null")
