"""The routes by which a dead letter of a store is edited, compared, and forwarded."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from linear_retry.console.frame.editing import Editing, Original
from linear_retry.console.frame.page import By, Form, Number, see_other
from linear_retry.console.frame.rendering import Renderer
from linear_retry.console.frame.services import Services
from linear_retry.console.stored.records import Outcome, Outcomes, StoredRecords, message_of
from linear_retry.errors import DeadLetterError
from linear_retry.scheduler.changes import Reason
from linear_retry.store.records import Service, StoredDeadLetter
from linear_retry.web.security.authentication import RefusedError

_PATH = "/stored/{service}/dead/{number}"


def add_edit(
    router: APIRouter,
    records: StoredRecords,
    services: Services,
    renderer: Renderer,
    outcomes: Outcomes,
) -> None:
    """Adds the routes."""
    editing = Editing(services.targets, renderer)

    @router.get(f"{_PATH}/edit")
    def edit(request: Request, service: Service, number: Number, by: By) -> HTMLResponse:
        services.authentication.check_role(by)
        return editing.form(request, _original(records.dead_letter(number), service))

    @router.post(f"{_PATH}/compare")
    def compare(request: Request, service: Service, number: Number, fields: Form) -> HTMLResponse:
        original = _original(records.dead_letter(number), service)
        return editing.comparison(request, original, fields)

    @router.post(f"{_PATH}/forward")
    def forward(service: Service, number: Number, fields: Form, by: By) -> RedirectResponse:
        reason, found = Reason(by.name, fields.reason()), records.dead_letter(number)
        after, to = editing.sent(_original(found, service), fields)
        try:
            retry_id = records.forward_edited(found, after, to, reason)
        except DeadLetterError as error:
            raise RefusedError(HTTPStatus.CONFLICT, str(error)) from error
        done = outcomes.keep(Outcome("send-now", 1, 1, retry_id=retry_id))
        return see_other(f"/stored/{service}/dead?done={done}")


def _original(found: StoredDeadLetter, service: Service) -> Original:
    return Original(
        name=f"dead letter {found.id}",
        address=f"/stored/{service}/dead/{found.id}",
        message=message_of(found),
        to=found.destination,
        group_id=found.group_id,
        stays=False,
    )
