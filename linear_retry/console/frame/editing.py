"""The pages by which a message is edited and compared, wherever it is kept."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from uuid import uuid4

from fastapi import Request
from fastapi.responses import HTMLResponse

from linear_retry.console.decoding.difference import changes
from linear_retry.console.decoding.edit import Draft, draft_of, parsed
from linear_retry.console.frame.page import Fields
from linear_retry.console.frame.rendering import Renderer
from linear_retry.console.frame.targets import Targets
from linear_retry.dlq import Message
from linear_retry.web.security.authentication import RefusedError

_NEW_HEADERS = 2


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
    stays: bool
    """Whether it stays as it is; else the edited copy takes its place."""


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
