"""The pages by which a message is edited and compared, and its texts in their forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import unified_diff
from http import HTTPStatus
from typing import Literal, TypeAlias, get_args
from uuid import uuid4

from fastapi import Request
from fastapi.responses import HTMLResponse

from linear_retry.console.decoding.views import JsonDecoder, visible
from linear_retry.console.frame.page import Fields
from linear_retry.console.frame.rendering import Renderer
from linear_retry.console.frame.services import Targets
from linear_retry.dlq import Message
from linear_retry.web.security.authentication import RefusedError

_LONGEST_BYTES = 262_144

Form: TypeAlias = Literal["text", "hex", "null"]

_DIFF_HEAD_LINES = 2
_MOST_LINES = 5_000
"""More, if many are alike, would take minutes of a core."""
_NEW_HEADERS = 2


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """A message to edit, without the retry headers, and what the pages say of it."""

    name: str
    """As `orders.dlq[0]@7`."""
    address: str
    """The path of its page; those of the edit begin with it."""
    message: Message
    to: str
    """The topic that it goes to unless another one is named; empty: it is not known."""
    group_id: str | None
    becomes: Literal["copied", "forwarded", "replaced"]
    """What sending does: it stays as it is, and a copy is sent; the edited message takes its place
    and waits, due now; or takes it where it waits.
    """


class Editing:
    """Shows the form of a message, and what differs in what was sent with it."""

    def __init__(self, targets: Targets, renderer: Renderer) -> None:
        self._targets, self._renderer = targets, renderer

    def form(self, request: Request, original: Original) -> HTMLResponse:
        """Answers with the form. Raises `RefusedError` for a message that is too long for one."""
        draft = _draft_of(original)
        return self._renderer.page(
            request, "edit.html", original=original, draft=draft, new=_NEW_HEADERS
        )

    def comparison(self, request: Request, original: Original, fields: Fields) -> HTMLResponse:
        """Answers with what differs, and a button to send it. Raises as the others do."""
        _draft_of(original)
        after, to = self.sent(original, fields)
        return self._renderer.page(
            request,
            "edit_compare.html",
            original=original,
            draft=_draft(fields),
            changes=changes(original.message, after),
            to=to,
            form=uuid4().hex,
        )

    def sent(self, original: Original, fields: Fields) -> tuple[Message, str]:
        """Returns the message of the form, and its topic. Raises `RefusedError`, `TargetError`."""
        to = fields.text("to") or original.to
        if not to:
            text = "name the topic to send to: the message does not say where it came from"
            raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, text)
        self._targets.check([to])
        try:
            return parsed(_draft(fields)), to
        except ValueError as error:
            raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error


def _draft(fields: Fields) -> Draft:
    return Draft.of_form(fields.texts)


def _draft_of(original: Original) -> Draft:
    draft = draft_of(original.message)
    if draft is None:
        text = "the message is too long for a form: edit it in Python, or by the scheduler's API"
        raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
    return draft
