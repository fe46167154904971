"""The routes of what a store holds: lists, one record, and the two steps of a change."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Literal, TypeAlias
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from linear_retry.console.decoding.views import views
from linear_retry.console.frame.editing import Editing, Original
from linear_retry.console.frame.page import By, Form, Number, see_other
from linear_retry.console.frame.rendering import Renderer
from linear_retry.console.frame.services import Services
from linear_retry.console.stored import forms
from linear_retry.console.stored.forms import FormError
from linear_retry.console.stored.records import (
    Chosen,
    Filter,
    Outcome,
    Outcomes,
    StoredRecords,
    action_of,
    message_of,
)
from linear_retry.errors import DeadLetterError
from linear_retry.scheduler.changes import Reason
from linear_retry.store.records import Service, StoredDeadLetter, StoredMessage
from linear_retry.web.security.authentication import RefusedError

Kind: TypeAlias = Literal["waiting", "dead"]

TABS: Mapping[tuple[Service, Kind], str] = {
    ("scheduler", "waiting"): "Scheduled messages",
    ("scheduler", "dead"): "Dead letters of the scheduler",
    ("outbox", "waiting"): "Messages of outboxes",
    ("outbox", "dead"): "Dead letters of outboxes",
}
_DELAYS_S = {"15m": 900, "1h": 3600, "6h": 21_600, "24h": 86_400}
_FIRST = "/stored/scheduler/waiting"

_PATH = "/stored/{service}/{kind}/{number}"


def routes(records: StoredRecords, services: Services, renderer: Renderer) -> APIRouter:
    """Returns the routes of `/stored`."""
    router = APIRouter(dependencies=[services.asks_store])
    router.add_api_route("/stored", lambda: RedirectResponse(_FIRST), response_class=Response)
    outcomes = Outcomes()
    _add_list(router, records, services, renderer, outcomes)
    _add_change(router, records, services, renderer, outcomes)
    _add_one(router, records, services, renderer)
    add_edit(router, records, services, renderer, outcomes)
    return router


def _add_list(
    router: APIRouter,
    records: StoredRecords,
    services: Services,
    renderer: Renderer,
    outcomes: Outcomes,
) -> None:
    @router.get("/stored/{service}/{kind}")
    def show(request: Request, service: Service, kind: Kind, by: By) -> HTMLResponse:
        form = _form(request, sees_values=services.sees_values(by))
        status, problem, found = HTTPStatus.OK, None, None
        try:
            after = forms.place(request.query_params.get("after", ""))
            found = records.page(_filter(service, kind, form), after)
        except FormError as error:
            status, problem = HTTPStatus.UNPROCESSABLE_ENTITY, str(error)
        more = urlencode(form | {"after": found.next}) if found and found.next else None
        return renderer.page(
            request,
            "stored.html",
            status,
            **_about(service, kind),
            form=dict.fromkeys(forms.FIELDS, "") | form,
            given=form,
            problem=problem,
            found=found,
            more=more,
            is_first="after" not in request.query_params,
            counts=records.counts(service),
            done=outcomes.get(request.query_params.get("done", "")),
        )


def _add_change(
    router: APIRouter,
    records: StoredRecords,
    services: Services,
    renderer: Renderer,
    outcomes: Outcomes,
) -> None:
    ask = partial(_ask, renderer)

    @router.get("/stored/{service}/{kind}/change")
    def confirm(request: Request, service: Service, kind: Kind, by: By) -> HTMLResponse:
        services.authentication.check_role(by)
        asked = request.query_params
        ids = [_number(text) for text in asked.getlist("number")]
        chosen = Chosen(ids, len(ids))
        try:
            if "all" in asked:
                chosen = records.chosen(_filter(service, kind, _form(request, sees_values=True)))
            return ask(request, (service, kind), asked.get("action", ""), chosen)
        except FormError as error:
            raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error

    @router.post("/stored/{service}/{kind}/change")
    def change(request: Request, service: Service, kind: Kind, fields: Form, by: By) -> Response:
        action = fields.text("action")
        ids = [_number(text) for text in fields.text("numbers").split()]
        reason = Reason(by.name, fields.reason())
        try:
            if not ids:
                raise FormError("nothing is chosen; go back, and tick what is to be changed")
            due_ms = _due_ms(records, fields) if action == "postpone" else None
            count = records.change(
                action_of(action), ids, reason, is_dead=kind == "dead", due_ms=due_ms
            )
            done = outcomes.keep(Outcome(action_of(action), count, len(ids), due_ms))
        except (FormError, DeadLetterError) as error:
            return ask(request, (service, kind), action, Chosen(ids, len(ids)), str(error))
        return see_other(f"/stored/{service}/{kind}?done={done}")


def _ask(
    renderer: Renderer,
    request: Request,
    at: tuple[Service, Kind],
    action: str,
    chosen: Chosen,
    problem: str | None = None,
) -> HTMLResponse:
    status = HTTPStatus.OK if problem is None else HTTPStatus.UNPROCESSABLE_ENTITY
    return renderer.page(
        request,
        "stored_change.html",
        status,
        **_about(*at),
        action=action_of(action),
        chosen=chosen,
        problem=problem,
        delays=_DELAYS_S,
    )


def _add_one(
    router: APIRouter, records: StoredRecords, services: Services, renderer: Renderer
) -> None:
    @router.get("/stored/{service}/{kind}/{number}")
    def show(request: Request, service: Service, kind: Kind, number: str, by: By) -> HTMLResponse:
        found = records.one(_number(number), is_dead=kind == "dead")
        shown = (
            views(found.destination, found.value, services.decoders)
            if services.sees_values(by)
            else []
        )
        return renderer.page(
            request, "stored_one.html", **_about(service, kind), record=found, views=shown
        )

    @router.get("/stored/{service}/{kind}/{number}/value")
    def value(service: Service, kind: Kind, number: str, by: By) -> Response:
        if not services.sees_values(by):
            raise RefusedError(HTTPStatus.FORBIDDEN, "a value is for operators alone")
        name = f'attachment; filename="{service}-{kind}-{_number(number)}.bin"'
        content = records.one(_number(number), is_dead=kind == "dead").value or b""
        about = f"{service}, {kind} {_number(number)}"
        services.audit.note(by.name, "export", about, f"its value, {len(content)} bytes")
        return Response(
            content,
            headers={"Content-Disposition": name},
            media_type="application/octet-stream",
        )


def _about(service: Service, kind: Kind) -> dict[str, Any]:
    place = f"/stored/{service}/{kind}"
    return {"tabs": TABS, "service": service, "kind": kind, "place": place}


def _form(request: Request, *, sees_values: bool) -> dict[str, str]:
    """The fields of the query; not the key for who may not see it, and could guess it so."""
    form = forms.given(request.query_params)
    return {name: text for name, text in form.items() if sees_values or name != "key"}


def _filter(service: Service, kind: Kind, form: Mapping[str, str]) -> Filter:
    if kind == "dead":
        return forms.dead_letter_filter(service, form)
    return forms.message_filter(service, form)


def _due_ms(records: StoredRecords, fields: Form) -> int:
    """The time of the form: a delay from now, by the store's clock, or a moment."""
    delay, due = fields.text("delay"), fields.text("due")
    if bool(delay) == bool(due):
        both = "not both" if due else "one of them is missing"
        raise FormError(f"choose for how long, or give the time until which they wait: {both}")
    if due:
        return forms.time_ms(due)
    if delay not in _DELAYS_S:
        raise FormError(f"{delay[:40]!r} is not one of {', '.join(_DELAYS_S)}")
    return records.now_ms() + _DELAYS_S[delay] * 1000


def _number(text: str) -> int:
    try:
        return forms.number_of(text)
    except FormError as error:
        raise RefusedError(HTTPStatus.NOT_FOUND, str(error)) from error


def add_edit(
    router: APIRouter,
    records: StoredRecords,
    services: Services,
    renderer: Renderer,
    outcomes: Outcomes,
) -> None:
    """Adds the routes."""
    editing = Editing(services.targets, renderer)

    def original(service: Service, kind: Kind, number: int) -> Original:
        return _original(records.one(number, is_dead=kind == "dead"), service, kind)

    @router.get(f"{_PATH}/edit")
    def edit(
        request: Request, service: Service, kind: Kind, number: Number, by: By
    ) -> HTMLResponse:
        services.authentication.check_role(by)
        return editing.form(request, original(service, kind, number))

    @router.post(f"{_PATH}/compare")
    def compare(
        request: Request, service: Service, kind: Kind, number: Number, fields: Form
    ) -> HTMLResponse:
        return editing.comparison(request, original(service, kind, number), fields)

    @router.post(f"{_PATH}/forward")
    def forward(
        service: Service, kind: Kind, number: Number, fields: Form, by: By
    ) -> RedirectResponse:
        reason = Reason(by.name, fields.reason())
        found = records.one(number, is_dead=kind == "dead")
        after, to = editing.sent(_original(found, service, kind), fields)
        try:
            retry_id = records.edit(found, after, to, reason)
        except DeadLetterError as error:
            raise RefusedError(HTTPStatus.CONFLICT, str(error)) from error
        done = outcomes.keep(
            Outcome("send-now" if kind == "dead" else "edit", 1, 1, retry_id=retry_id)
        )
        return see_other(f"/stored/{service}/{kind}?done={done}")


def _original(found: StoredMessage | StoredDeadLetter, service: Service, kind: Kind) -> Original:
    return Original(
        name=f"{'dead letter' if kind == 'dead' else 'message'} {found.id}",
        address=f"/stored/{service}/{kind}/{found.id}",
        message=message_of(found),
        to=found.destination,
        group_id=found.group_id,
        becomes="forwarded" if kind == "dead" else "replaced",
    )
