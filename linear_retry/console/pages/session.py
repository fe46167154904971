"""The page by which a browser signs in, and the way out."""

from http import HTTPStatus

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from linear_retry.console.frame.page import Form, Page, see_other
from linear_retry.console.frame.rendering import Renderer
from linear_retry.console.frame.services import Services
from linear_retry.web.security.authentication import RefusedError
from linear_retry.web.security.cookie import delete_session, set_session


def page(services: Services, renderer: Renderer) -> Page:
    """Returns the routes of sessions."""
    routes = APIRouter()

    def form(request: Request, wanted: str, error: RefusedError | None = None) -> HTMLResponse:
        status = HTTPStatus.OK if error is None else error.status
        return renderer.page(request, "login.html", status, next=wanted, error=error)

    @routes.get("/login")
    def show(request: Request) -> HTMLResponse:
        return form(request, request.query_params.get("next", "/"))

    @routes.post("/login")
    async def sign_in(request: Request, fields: Form) -> Response:
        wanted = fields.text("next")
        try:
            _, session = await services.authentication.begin_session(
                request, fields.text("name"), fields.text("password")
            )
        except RefusedError as error:
            return form(request, wanted, error)
        answer = see_other(wanted if _is_ours(wanted) else "/")
        set_session(answer, request, session)
        return answer

    @routes.post("/logout")
    def sign_out(request: Request) -> RedirectResponse:
        services.authentication.end_session(request)
        answer = see_other("/login")
        delete_session(answer, request)
        return answer

    return Page(routes)


def _is_ours(address: str) -> bool:
    """Whether it is a path of this server: `//host` and `/\\host` lead to another one."""
    return address.startswith("/") and address[1:2] not in ("/", "\\") and address.isprintable()
