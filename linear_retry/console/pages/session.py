"""The page by which a browser signs in, and the way out."""

from http import HTTPStatus

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from linear_retry.console.frame.page import (
    LOGIN,
    LOGOUT,
    Form,
    Page,
    note,
    note_refused,
    peer_of,
    see_other,
)
from linear_retry.console.frame.rendering import Renderer
from linear_retry.console.frame.services import Services
from linear_retry.web.security.authentication import RefusedError
from linear_retry.web.security.sessions import delete_session, set_session


def page(services: Services, renderer: Renderer) -> Page:
    """Returns the routes of sessions."""
    routes = APIRouter()

    def form(request: Request, wanted: str, error: RefusedError | None = None) -> HTMLResponse:
        status = HTTPStatus.OK if error is None else error.status
        return renderer.page(request, "login.html", status, next=wanted, error=error)

    @routes.get(LOGIN)
    def show(request: Request) -> HTMLResponse:
        return form(request, request.query_params.get("next", "/"))

    @routes.post(LOGIN)
    async def sign_in(request: Request, fields: Form) -> Response:
        wanted = fields.text("next")
        try:
            actor, session = await services.authentication.begin_session(
                request, fields.text("name"), fields.text("password")
            )
        except RefusedError as error:
            # A name that nobody has may be a password in the wrong field.
            users = services.access.users
            is_known = users is not None and users.role_of(fields.text("name")) is not None
            name = fields.text("name") if is_known else "unknown name"
            # The wait after too many is refused without a look, and says nothing new.
            if error.status == HTTPStatus.UNAUTHORIZED:
                await run_in_threadpool(note_refused, services, request, name, "sign in", error)
            return form(request, wanted, error)
        peer = peer_of(request)
        await run_in_threadpool(note, services, actor.name, "sign in", peer, "signed in")
        answer = see_other(wanted if _is_ours(wanted) else "/")
        set_session(answer, request, session)
        return answer

    @routes.post(LOGOUT)
    def sign_out(request: Request) -> RedirectResponse:
        if (name := services.authentication.end_session(request)) is not None:
            note(services, name, "sign out", peer_of(request), "signed out")
        answer = see_other(LOGIN)
        delete_session(answer, request)
        return answer

    return Page(routes)


def _is_ours(address: str) -> bool:
    """Whether it is a path of this server: `//host` and `/\\host` lead to another one."""
    return address.startswith("/") and address[1:2] not in ("/", "\\") and address.isprintable()
