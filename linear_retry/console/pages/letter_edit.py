"""The pages by which one letter's message is edited, compared, and forwarded."""

from __future__ import annotations

from difflib import unified_diff
from http import HTTPStatus
from typing import Any
from uuid import uuid4

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from linear_retry.console.decoding.decoder import visible
from linear_retry.console.decoding.edit import Draft, draft_of, parsed
from linear_retry.console.decoding.json_text import JsonDecoder
from linear_retry.console.frame.page import By, Fields, Form, Number, Page, see_other
from linear_retry.console.frame.rendering import Renderer
from linear_retry.console.frame.services import Services
from linear_retry.console.pages.letter import PATH, address, find, opened
from linear_retry.dlq import Letter, Message
from linear_retry.scope import Place
from linear_retry.web.security.authentication import RefusedError

_NEW_HEADERS = 2
_DIFF_HEAD_LINES = 2


def page(services: Services, renderer: Renderer) -> Page:
    """Returns the routes of the pages."""
    routes = APIRouter(dependencies=[services.asks_brokers])

    def original(topic: str, partition: int, offset: int) -> tuple[Letter, Message]:
        letter, *_ = find(services, topic, partition, offset)
        with opened(services, topic) as letters:
            return letter, letters.original(letter)

    @routes.get(f"{PATH}/edit")
    def edit(
        request: Request, topic: str, partition: Number, offset: Number, by: By
    ) -> HTMLResponse:
        services.authentication.check_role(by)
        letter, message = original(topic, partition, offset)
        draft = draft_of(message)
        if draft is None:
            text = "the message is too long for a form: edit it in Python (DeadLetterTopic.forward)"
            raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
        values: dict[str, Any] = {
            "letter": letter,
            "draft": draft,
            "address": address(letter),
            "new": _NEW_HEADERS,
        }
        return renderer.page(request, "letter_edit.html", **values)

    @routes.post(f"{PATH}/compare")
    def compare(
        request: Request, topic: str, partition: Number, offset: Number, fields: Form
    ) -> HTMLResponse:
        letter, before = original(topic, partition, offset)
        draft, after = _sent(fields)
        values: dict[str, Any] = {"letter": letter, "draft": draft, "address": address(letter)}
        values |= {"changes": _changes(before, after), "to": target(fields, letter)}
        values["form"] = uuid4().hex
        return renderer.page(request, "letter_compare.html", **values)

    @routes.post(f"{PATH}/forward")
    def forward(
        topic: str, partition: Number, offset: Number, fields: Form, by: By
    ) -> RedirectResponse:
        why, is_resolved = fields.reason(), fields.has("resolve")
        letter, before = original(topic, partition, offset)
        (_, after), to = _sent(fields), target(fields, letter)
        place = str(Place(topic, partition, offset))
        # A double click would send two copies: a message that is forwarded stays a letter.
        form = fields.text("form") or None
        with (
            services.jobs.reserved(topic, "forward"),
            services.audit.recording(
                by.name, "edit and forward", place, why=why, form=form
            ) as recording,
            opened(services, topic) as letters,
        ):
            retry_id = letters.forward(
                letter, after, by=by.name, why=why, to=to, resolve=is_resolved
            )
            parts = zip(Message._fields, before, after, strict=True)
            changed = ", ".join(name for name, old, new in parts if old != new) or "nothing"
            state = "is resolved" if is_resolved else "stays open"
            recording.outcome = (
                f"sent to {to} as {retry_id}; changed: {changed}; the letter {state}"
            )
        return see_other(address(letter), recording.change)

    def target(fields: Fields, letter: Letter) -> str:
        to = fields.text("to") or ("" if letter.origin is None else letter.origin.topic)
        if not to:
            text = "name the topic to send to: the letter does not say where it came from"
            raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, text)
        services.targets.check([to])
        return to

    return Page(routes)


def _sent(fields: Fields) -> tuple[Draft, Message]:
    try:
        draft = Draft.of_form(fields.texts)
        return draft, parsed(draft)
    except ValueError as error:
        raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error


def _changes(before: Message, after: Message) -> list[tuple[str, str]]:
    """What differs, by name: lines of a diff."""
    parts = [("key", before.key, after.key), ("value", before.value, after.value)]
    found = [(name, _diff(old, new)) for name, old, new in parts if old != new]
    if before.headers != after.headers:
        old, new = (
            "\n".join(f"{name} = {_text(value)}" for name, value in each.headers)
            for each in (before, after)
        )
        found.append(("headers", diff_lines(old, new)))
    return found


def _diff(old: bytes | None, new: bytes | None) -> str:
    as_json = [None if each is None else JsonDecoder().decode("", each) for each in (old, new)]
    if None not in as_json and as_json[0] != as_json[1]:
        return diff_lines(*(text or "" for text in as_json))
    return diff_lines(_text(old), _text(new))


def diff_lines(old: str, new: str) -> str:
    """Returns the lines that differ, each after - or +, and two around them."""
    before, after = (visible(each).split("\n") for each in (old, new))
    lines = list(unified_diff(before, after, lineterm="", n=2))[_DIFF_HEAD_LINES:]
    # A line of the text begins with a space, + or - here, and so never with @@.
    return "\n".join(line for line in lines if not line.startswith("@@"))


def _text(content: bytes | None) -> str:
    if content is None:
        return "null"
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.hex(" ", 4)
