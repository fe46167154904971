"""Puts the console together: its pages, the guard before them, and the words for errors."""

from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from importlib import import_module
from pkgutil import iter_modules
from urllib.parse import quote, urlsplit

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException

from linear_retry.console import pages
from linear_retry.console.frame.page import LOGIN, LOGOUT, Page, note_refused_change
from linear_retry.console.frame.rendering import STATIC, Renderer
from linear_retry.console.frame.services import Services, TargetError
from linear_retry.console.jobs.job import JobError
from linear_retry.console.state.audit import RepeatedError
from linear_retry.dlq import RefusedError as NotPossibleError
from linear_retry.errors import FencedError, LinearRetryError
from linear_retry.web.security.authentication import RefusedError
from linear_retry.web.security.guard import Guard

_TYPES = {"css": "text/css", "js": "text/javascript"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    # Not `no-referrer`: with it, browsers send `Origin: null` with the console's own forms.
    "Referrer-Policy": "same-origin",
}
# Else the sentence would stand in place of a table, or the table's part of it would be looked for.
_AS_PROBLEM = {"HX-Retarget": "#problem", "HX-Reswap": "innerHTML", "HX-Reselect": ".note"}


def create_app(services: Services) -> FastAPI:
    """Returns the console as an ASGI application; `serve` it with the access of its services."""
    app = FastAPI(title="linear_retry console", openapi_url=None, docs_url=None, redoc_url=None)
    renderer = Renderer(services)
    found = sorted(_pages(services, renderer), key=lambda page: page.order)
    renderer.navigation = [page for page in found if page.title]
    for page in found:
        app.include_router(page.routes)
    first = renderer.navigation[0].path
    app.add_api_route("/", lambda: RedirectResponse(first), response_class=Response)
    static = {file.name: file.read_bytes() for file in STATIC.iterdir() if _is_served(file.name)}
    app.add_api_route("/static/{name}", partial(_file, static), response_class=Response)
    _answer_errors(app, renderer, services)
    # Outermost, around the answer to an error that nobody expected: it has the headers too.
    app.middleware_stack = Guard(
        app.build_middleware_stack(),
        authentication=services.authentication,
        open_paths=[LOGIN, LOGOUT, *(f"/static/{name}" for name in static)],
        refuse=partial(_refused, renderer, services),
        headers=_HEADERS,
    )
    return app


def _pages(services: Services, renderer: Renderer) -> Iterator[Page]:
    """Asks each module of `pages/` for its page, which it has if there is something behind it."""
    for module in iter_modules(pages.__path__, f"{pages.__name__}."):
        page: Page | None = import_module(module.name).page(services, renderer)
        if page is not None:
            yield page


def _is_served(name: str) -> bool:
    return name.rpartition(".")[2] in _TYPES


def _file(files: dict[str, bytes], name: str) -> Response:
    if name not in files:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    # The address has the content's digest, and so has that of the next release.
    keep = {"Cache-Control": "max-age=31536000, immutable"}
    return Response(files[name], headers=keep, media_type=_TYPES[name.rpartition(".")[2]])


def _answer_errors(app: FastAPI, renderer: Renderer, services: Services) -> None:
    def answer(request: Request, status: int, text: str) -> Response:
        return _error(renderer, request, status, text)

    def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, RefusedError)
        note_refused_change(services, request, error.status, error)
        return answer(request, error.status, str(error))

    def not_found(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        missing = error.status_code == HTTPStatus.NOT_FOUND
        return answer(
            request, error.status_code, "There is no such page." if missing else error.detail
        )

    def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        places = ", ".join(".".join(map(str, each["loc"])) for each in error.errors())
        return answer(request, HTTPStatus.UNPROCESSABLE_ENTITY, f"This cannot be read: {places}.")

    def unavailable(request: Request, error: Exception) -> Response:
        return answer(request, HTTPStatus.SERVICE_UNAVAILABLE, str(error))

    def conflict(request: Request, error: Exception) -> Response:
        if isinstance(error, JobError | TargetError):  # the others are in the audit already
            note_refused_change(services, request, HTTPStatus.CONFLICT, error)
        return answer(request, HTTPStatus.CONFLICT, str(error))

    def failed(request: Request, error: Exception) -> Response:
        text = f"{type(error).__name__}; the console's log has the rest"
        return answer(request, HTTPStatus.INTERNAL_SERVER_ERROR, text)

    app.add_exception_handler(RefusedError, refused)
    app.add_exception_handler(LinearRetryError, unavailable)
    for kind in (JobError, TargetError, NotPossibleError, FencedError, RepeatedError):
        app.add_exception_handler(kind, conflict)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, not_found)
    app.add_exception_handler(Exception, failed)


def _refused(
    renderer: Renderer, services: Services, request: Request, error: RefusedError
) -> Response:
    """Sends who has not signed in to do that, and answers all others with the error."""
    note_refused_change(services, request, error.status, error)
    if services.access.users is not None and error.status == HTTPStatus.UNAUTHORIZED:
        if "HX-Request" in request.headers:  # the whole page goes, not the part that asked
            url = urlsplit(request.headers.get("HX-Current-URL", ""))
            return Response(headers={"HX-Redirect": _login(url.path, url.query)})
        if request.method == "GET" and "text/html" in request.headers.get("Accept", ""):
            query = request.scope["query_string"].decode("latin-1")
            return RedirectResponse(_login(request.scope["path"], query), HTTPStatus.SEE_OTHER)
    return _error(renderer, request, error.status, str(error))


def _login(path: str, query: str) -> str:
    """The address of the form that leads on to this one."""
    return f"{LOGIN}?next={quote(f'{path}?{query}' if query else path)}"


def _error(renderer: Renderer, request: Request, status: int, text: str) -> Response:
    title = HTTPStatus(status).phrase
    template = "_error.html" if "HX-Request" in request.headers else "error.html"
    answer = renderer.page(request, template, status, title=title, text=text)
    if template == "_error.html":
        answer.headers.update(_AS_PROBLEM)
    return answer
