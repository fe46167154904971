"""Stands before every route: checks host, sender, role, token and size before a body is read."""

from collections.abc import Collection
from http import HTTPStatus

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from linear_retry.scheduler.http.security.authentication import (
    Actor,
    Authentication,
    RefusedError,
    is_change,
)

MAX_BODY_BYTES = 16 * 1024 * 1024

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Guard:
    """An ASGI middleware: a route cannot be forgotten, since none is reached without it.

    `open_paths` need no login; their `Host` and the page that they come from are checked too.
    """

    def __init__(
        self, app: ASGIApp, authentication: Authentication, open_paths: Collection[str]
    ) -> None:
        self._app = app
        self._authentication = authentication
        self._open_paths = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on with its `actor`, or answers with one sentence."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        try:
            await self._check(request)
        except RefusedError as error:
            answer = JSONResponse({"error": str(error)}, error.status)
            await answer(scope, receive, _with_headers(send))
        else:
            await self._app(scope, receive, _with_headers(send))

    async def _check(self, request: Request) -> None:
        self._authentication.check_origin(request)
        _check_size(request)
        # Not `request.url.path`, which is parsed from an URL that begins with the client's `Host`.
        if request.scope["path"] not in self._open_paths:
            request.state.actor = actor = await self._authentication.actor_of(request)
            if is_change(request):
                self._authentication.check_change(request, actor)


def actor_of(request: Request) -> Actor:
    """Returns who sends the request, as the guard has found out."""
    actor: Actor = request.state.actor
    return actor


def _check_size(request: Request) -> None:
    length = request.headers.get("Content-Length", "0")
    if "Transfer-Encoding" in request.headers or not length.isdigit():
        raise RefusedError(HTTPStatus.LENGTH_REQUIRED, "a body needs its Content-Length")
    if int(length) > MAX_BODY_BYTES:
        raise RefusedError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"the body has {length} bytes, must have at most {MAX_BODY_BYTES}",
        )


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sent
