"""Puts the API together: routes, the guard before them, and the form of errors."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client.registry import Collector
from starlette.exceptions import HTTPException

from linear_retry.errors import DeadLetterError, StoreError
from linear_retry.log.lines import log_refused
from linear_retry.log.repeating import ErrorThrottle
from linear_retry.scheduler.changes import Changes
from linear_retry.scheduler.http import (
    dead_letter_routes,
    message_routes,
    overview_routes,
    session_routes,
)
from linear_retry.scheduler.http.overview_routes import Probe
from linear_retry.scheduler.http.session_routes import SIGN_IN
from linear_retry.store.database import Database
from linear_retry.web.security.access import Access
from linear_retry.web.security.authentication import Actor, Authentication, RefusedError, is_change
from linear_retry.web.security.guard import Guard


class Refusals:
    """Logs each kind by its address; not all of them, or who tries passwords would fill a disk."""

    def __init__(self) -> None:
        self._throttle = ErrorThrottle()

    def note(self, request: Request, error: RefusedError) -> None:
        """Logs it if it came with a login, or would have changed something. Says no path of it."""
        has_login = "Authorization" in request.headers or request.scope["path"] == SIGN_IN
        is_sign_in = has_login and error.status == HTTPStatus.UNAUTHORIZED
        is_refused = error.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
        if not is_sign_in and not (is_refused and is_change(request)):
            return
        actor: Actor | None = getattr(request.state, "actor", None)
        what = "a sign-in" if is_sign_in else "a change"
        who = "" if actor is None else f" by {actor.name}"
        peer = "unknown" if request.client is None else request.client.host
        text = f"{what}{who} from {peer}: {error}"
        count = self._throttle.count(text, time.monotonic())
        if count is not None:
            log_refused(text, count)


_THREADS = 8
"""Requests at once. Intake and sender use the same 15 connections to the store."""

_OPEN = (*session_routes.OPEN, *overview_routes.OPEN)
_LOGINS = {"password": "basic", "token": "bearer"}
_RULES = {
    "extra_forbidden": "unknown, or misspelt",
    "json_invalid": "at this byte it is not JSON",
    "model_attributes_type": "must be a JSON object, with Content-Type: application/json",
}
"""In place of pydantic's own words, which do not say what to correct."""


def create_app(
    database: Database,
    access: Access,
    *,
    alive: Probe = lambda: None,
    ready: Probe = lambda: None,
    collectors: Sequence[Collector] = (),
) -> FastAPI:
    """Returns the API over a store as an ASGI application; `serve` it with the same `access`.

    `alive` and `ready` return what is wrong with the service, for its probes, or None; `collectors`
    are the service's own metrics, beside those of the store.
    """
    authentication = Authentication(access)
    changes = Changes(database)
    app = _DescribedApp(
        title="linear_retry scheduler",
        description="What waits in the store and what is dead in it, seen and changed.",
        version="1",
        lifespan=_few_threads,
        openapi_url="/api/v1/openapi.json",
        # The pages load their scripts from other hosts.
        docs_url=None,
        redoc_url=None,
    )
    app.include_router(session_routes.routes(authentication))
    app.include_router(message_routes.routes(database, changes))
    app.include_router(dead_letter_routes.routes(database, changes))
    app.include_router(overview_routes.routes(database, alive, ready, collectors))
    refusals = Refusals()

    def refuse(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RefusedError)
        refusals.note(request, error)
        return _answer(error.status, str(error))

    _answer_errors(app)
    app.add_exception_handler(RefusedError, refuse)
    # Outermost, around the answer to an error that nobody expected: it has the headers too.
    stack = app.build_middleware_stack()
    app.middleware_stack = Guard(stack, authentication, _OPEN, refuse=refuse)
    return app


class _DescribedApp(FastAPI):
    """Describes the logins, which the guard checks, for generators of clients."""

    def openapi(self) -> dict[str, Any]:
        """Returns the OpenAPI description."""
        described = super().openapi()
        described["components"]["securitySchemes"] = {
            name: {"type": "http", "scheme": scheme} for name, scheme in _LOGINS.items()
        }
        described["security"] = [{name: []} for name in _LOGINS]
        for path in _OPEN:
            for operation in described["paths"][path].values():
                operation["security"] = []
        return described


@asynccontextmanager
async def _few_threads(_: FastAPI) -> AsyncIterator[None]:
    current_default_thread_limiter().total_tokens = _THREADS
    yield


def _answer_errors(app: FastAPI) -> None:
    """Gives every error one form: `{"error": "one sentence"}`."""
    app.add_exception_handler(DeadLetterError, _not_allowed)
    app.add_exception_handler(StoreError, _store_is_down)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _not_found)
    app.add_exception_handler(Exception, _failed)


def _not_allowed(_: Request, error: Exception) -> JSONResponse:
    return _answer(HTTPStatus.CONFLICT, str(error))


def _store_is_down(_: Request, error: Exception) -> JSONResponse:
    return _answer(HTTPStatus.SERVICE_UNAVAILABLE, str(error), {"Retry-After": "5"})


def _invalid(_: Request, error: Exception) -> JSONResponse:
    """Names the place and the rule; what was sent may be a payload, and stays out of it."""
    assert isinstance(error, RequestValidationError)
    problems = [
        f"{'.'.join(map(str, each['loc']))}: {_RULES.get(each['type'], each['msg'])}"
        for each in error.errors()
    ]
    return _answer(HTTPStatus.UNPROCESSABLE_ENTITY, "; ".join(problems))


def _not_found(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    text = f"{request.method} {request.scope['path']}: {error.detail}; see /api/v1/openapi.json"
    return _answer(error.status_code, text)


def _failed(_: Request, error: Exception) -> JSONResponse:
    """Answers where our code has failed; the server logs the error itself."""
    kind = type(error).__name__
    return _answer(HTTPStatus.INTERNAL_SERVER_ERROR, f"{kind}; the scheduler's log has the rest")


def _answer(status: int, text: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": text}, status, headers)
