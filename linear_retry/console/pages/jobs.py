"""The pages of jobs: what a replay, resolve or purge would do, and how far it is."""

from http import HTTPStatus

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from linear_retry.console.frame.page import By, Fields, Form, Number, Page, see_other
from linear_retry.console.frame.rendering import Renderer
from linear_retry.console.frame.services import Services
from linear_retry.console.jobs.job import Action, Job, Options
from linear_retry.console.pages.letters import known
from linear_retry.dlq import EVERYTHING, Filter
from linear_retry.errors import BrokerError
from linear_retry.retry.clock import now_ms
from linear_retry.web.security.authentication import RefusedError

_PATH = "/jobs"
_ANSWER_S = 5.0
_ASKED_FOR_MS = 10 * 60_000
"""Each question reads what was written since the replay: a page may stay open for a day."""
_STOP_ASKING = 286
"""The status that ends the polling of htmx."""
_SLOWEST, _FASTEST = 0.1, 1e9


def page(services: Services, renderer: Renderer) -> Page:
    """Returns the routes of the pages."""
    routes = APIRouter()

    @routes.get(_PATH)
    def show_all(request: Request) -> HTMLResponse:
        return renderer.page(request, "jobs.html", jobs=services.jobs.recent())

    _add_planning(routes, services, renderer)
    _add_one(routes, services, renderer)
    return Page(routes, "Jobs", _PATH, 30)


def _add_planning(routes: APIRouter, services: Services, renderer: Renderer) -> None:
    @routes.get(f"{_PATH}/new")
    def show_form(
        request: Request,
        by: By,
        topic: str,
        action: Action = Action.REPLAY,
        partition: int | None = None,
        offset: int | None = None,
    ) -> HTMLResponse:
        services.authentication.check_role(by)
        known(services, topic)
        place = None if partition is None or offset is None else (partition, offset)
        return renderer.page(request, "job_new.html", topic=topic, action=action, place=place)

    @routes.post(_PATH)
    def plan(fields: Form, by: By) -> RedirectResponse:
        topic, action = fields.text("topic"), action_of(fields)
        known(services, topic)
        job_id = services.jobs.plan(
            topic, action, _selected(fields), options_of(services, fields), actor=by.name
        )
        return see_other(f"{_PATH}/{job_id}")


def _add_one(routes: APIRouter, services: Services, renderer: Renderer) -> None:
    jobs = services.jobs

    def job_of(job_id: int) -> Job:
        job = jobs.get(job_id)
        if job is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        return job

    @routes.get(f"{_PATH}/{{job_id}}")
    def show(request: Request, job_id: Number) -> HTMLResponse:
        return renderer.page(request, "job.html", job=job_of(job_id))

    @routes.get(f"{_PATH}/{{job_id}}/progress")
    def show_progress(request: Request, job_id: Number) -> Response:
        job = job_of(job_id)
        answer = renderer.page(request, "_progress.html", job=job)
        if not job.stage.is_active:
            answer.headers["HX-Refresh"] = "true"  # it has ended: the page has other parts now
        return answer

    @routes.get(f"{_PATH}/{{job_id}}/outcome", dependencies=[services.asks_brokers])
    def show_outcome(request: Request, job_id: Number) -> HTMLResponse:
        job = job_of(job_id)
        outcome, trouble = None, ""
        try:
            outcome = jobs.outcome(job, _ANSWER_S)
        except BrokerError as error:
            trouble = str(error)
        is_last = not trouble and (outcome is None or outcome.is_settled)
        is_late = not is_last and now_ms() - job.changed_ms > _ASKED_FOR_MS
        status = _STOP_ASKING if is_last or is_late else HTTPStatus.OK
        values = {"outcome": outcome, "trouble": trouble, "is_late": is_late}
        return renderer.page(request, "_outcome.html", status, **values)

    @routes.post(f"{_PATH}/{{job_id}}/start")
    def start(job_id: Number, fields: Form, by: By) -> RedirectResponse:
        why, rate = fields.reason(), _rate(fields.text("rate"))
        if not job_of(job_id).stage.is_active:  # else somebody was faster: the page says who
            jobs.start(job_id, actor=by.name, why=why, rate=rate)
        return see_other(f"{_PATH}/{job_id}")

    @routes.post(f"{_PATH}/{{job_id}}/cancel")
    def cancel(job_id: Number, by: By) -> RedirectResponse:
        if job_of(job_id).stage.is_active:
            jobs.cancel(job_id, actor=by.name)
        return see_other(f"{_PATH}/{job_id}")


def action_of(fields: Fields) -> Action:
    """Returns the action of a form."""
    try:
        return Action(fields.text("action"))
    except ValueError:
        raise _unreadable("the action", fields.text("action")) from None


def _selected(fields: Fields) -> Filter:
    """All open letters, or the one at a place."""
    partition, offset = fields.text("partition"), fields.text("offset")
    if not partition and not offset:
        return EVERYTHING
    for text in (partition, offset):
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            raise _unreadable("the letter's place", f"{partition}@{offset}")
    return Filter(ranges=((int(partition), int(offset), int(offset)),))


def options_of(services: Services, fields: Fields) -> Options:
    """Returns the options of a form. Raises `TargetError`."""
    to, to_retry = fields.text("to") or None, fields.text("to_retry") or None
    services.targets.check(filter(None, (to, to_retry)))
    return Options(
        to=to,
        to_retry=to_retry,
        for_group="" if fields.has("every_group") else fields.text("for_group") or None,
        keep_timestamp=fields.has("keep_timestamp"),
        check_newer=fields.has("check_newer"),
        everything=fields.has("everything"),
    )


def _rate(text: str) -> float | None:
    if not text:
        return None
    try:
        rate = float(text)
    except ValueError:
        raise _unreadable("the rate", text) from None
    if not _SLOWEST <= rate < _FASTEST:
        raise _unreadable("the rate", text)
    return rate


def _unreadable(what: str, text: str) -> RefusedError:
    return RefusedError(
        HTTPStatus.UNPROCESSABLE_ENTITY, f"{what} is {text[:40]!r}: correct it, and send it again"
    )
