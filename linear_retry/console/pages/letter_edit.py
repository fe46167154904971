"""The pages by which one letter's message is edited, compared, and forwarded."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from linear_retry.console.frame.editing import Editing, Original
from linear_retry.console.frame.page import By, Fields, Form, Number, Page, see_other
from linear_retry.console.frame.rendering import Renderer
from linear_retry.console.frame.services import Services
from linear_retry.console.pages.letter import PATH, address, find, opened
from linear_retry.dlq import Letter, Message
from linear_retry.scope import Place


def page(services: Services, renderer: Renderer) -> Page:
    """Returns the routes of the pages."""
    routes = APIRouter(dependencies=[services.asks_brokers])
    editing = Editing(services.targets, renderer)

    @routes.get(f"{PATH}/edit")
    def edit(
        request: Request, topic: str, partition: Number, offset: Number, by: By
    ) -> HTMLResponse:
        services.authentication.check_role(by)
        _, original = _original(services, topic, partition, offset)
        return editing.form(request, original)

    @routes.post(f"{PATH}/compare")
    def compare(
        request: Request, topic: str, partition: Number, offset: Number, fields: Form
    ) -> HTMLResponse:
        _, original = _original(services, topic, partition, offset)
        return editing.comparison(request, original, fields)

    @routes.post(f"{PATH}/forward")
    def forward(
        topic: str, partition: Number, offset: Number, fields: Form, by: By
    ) -> RedirectResponse:
        letter, original = _original(services, topic, partition, offset)
        after, to = editing.sent(original, fields)
        change = _forward(services, letter, (original.message, after), to, fields, by.name)
        return see_other(address(letter), change)

    return Page(routes)


def _original(
    services: Services, topic: str, partition: int, offset: int
) -> tuple[Letter, Original]:
    letter, *_ = find(services, topic, partition, offset)
    with opened(services, topic) as letters:
        message = letters.original(letter)
    return letter, Original(
        name=str(Place(topic, partition, offset)),
        address=address(letter),
        message=message,
        to="" if letter.origin is None else letter.origin.topic,
        group_id=letter.group_id,
        becomes="copied",
    )


def _forward(
    services: Services,
    letter: Letter,
    messages: tuple[Message, Message],
    to: str,
    fields: Fields,
    by: str,
) -> int:
    """Sends the second of the messages, before and after the edit; returns the change's number."""
    why, is_resolved = fields.reason(), fields.has("resolve")
    place = str(Place(letter.topic, letter.partition, letter.offset))
    # A double click would send two copies: a message that is forwarded stays a letter.
    form = fields.text("form") or None
    with (
        services.jobs.reserved(letter.topic, "forward"),
        services.audit.recording(by, "edit and forward", place, why=why, form=form) as recording,
        opened(services, letter.topic) as letters,
    ):
        retry_id = letters.forward(letter, messages[1], by=by, why=why, to=to, resolve=is_resolved)
        parts = zip(Message._fields, *messages, strict=True)
        changed = ", ".join(name for name, old, new in parts if old != new) or "nothing"
        state = "is resolved" if is_resolved else "stays open"
        recording.outcome = f"sent to {to} as {retry_id}; changed: {changed}; the letter {state}"
    return recording.change
