"""Stands before every route: checks host, sender, role, token and size before a body is read."""

from collections.abc import Callable, Collection, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import TypeAlias

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from linear_retry.web.security.authentication import (
    Actor,
    Authentication,
    RefusedError,
    is_change,
)

MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_OPEN_BODY_BYTES = 8 * 1024
"""As long as a body may be that needs no login: a name, a password, an address."""

Refuse: TypeAlias = Callable[[Request, RefusedError], Response]
"""Makes the answer to a request that is refused."""

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Guard:
    """An ASGI middleware: a route cannot be forgotten, since none is reached without it.

    `open_paths` need no login; their `Host` and the page that they come from are checked too.
    `refuse` makes the answers of what is refused, and `headers` are on every answer that does not
    have them, in place of those of an API.
    """

    def __init__(
        self,
        app: ASGIApp,
        authentication: Authentication,
        open_paths: Collection[str],
        *,
        refuse: Refuse = lambda _, error: JSONResponse({"error": str(error)}, error.status),
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._app = app
        self._refuse = refuse
        self._headers = _HEADERS | dict(headers)
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
            answer = self._refuse(request, error)
            await answer(scope, receive, _with_headers(send, self._headers))
        else:
            await self._app(scope, receive, _with_headers(send, self._headers))

    async def _check(self, request: Request) -> None:
        self._authentication.check_origin(request)
        # Not `request.url.path`, which is parsed from an URL that begins with the client's `Host`.
        is_open = request.scope["path"] in self._open_paths
        _check_size(request, MAX_OPEN_BODY_BYTES if is_open else MAX_BODY_BYTES)
        if not is_open:
            request.state.actor = actor = await self._authentication.actor_of(request)
            if is_change(request):
                self._authentication.check_change(request, actor)


def actor_of(request: Request) -> Actor:
    """Returns who sends the request, as the guard has found out."""
    actor: Actor = request.state.actor
    return actor


def _check_size(request: Request, most_bytes: int) -> None:
    length = request.headers.get("Content-Length", "0")
    if "Transfer-Encoding" in request.headers or not length.isdigit():
        raise RefusedError(HTTPStatus.LENGTH_REQUIRED, "a body needs its Content-Length")
    if int(length) > most_bytes:
        raise RefusedError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"the body has {length} bytes, must have at most {most_bytes}",
        )


def _with_headers(send: Send, expected: Mapping[str, str]) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in expected.items():
                headers.setdefault(name, value)
        await send(message)

    return sent
