"""Puts the API together: routes, the guard before them, and the form of errors."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from linear_retry.errors import DeadLetterError, StoreError
from linear_retry.scheduler.changes import Changes
from linear_retry.scheduler.destinations import Destinations
from linear_retry.scheduler.http import (
    dead_letter_routes,
    message_routes,
    overview_routes,
    session_routes,
)
from linear_retry.scheduler.http.overview_routes import Probe
from linear_retry.scheduler.http.security.access import Access
from linear_retry.scheduler.http.security.authentication import Authentication, RefusedError
from linear_retry.scheduler.http.security.guard import Guard
from linear_retry.store.database import Database

_THREADS = 8
"""Requests at once. Intake and sender use the same 15 connections to the store."""


def create_app(
    database: Database,
    access: Access,
    destinations: Destinations | None = None,
    *,
    alive: Probe = lambda: None,
    ready: Probe = lambda: None,
) -> FastAPI:
    """Returns the API over a store as an ASGI application; `serve` it with the same `access`.

    `destinations` are the topics that dead letters may be forwarded to; without them, all. `alive`
    and `ready` return what is wrong with the service, for its probes, or None.
    """
    authentication = Authentication(access)
    changes = Changes(database, destinations)
    app = FastAPI(
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
    app.include_router(overview_routes.routes(database, alive, ready))
    _answer_errors(app)
    open_paths = (*session_routes.OPEN, *overview_routes.OPEN)
    app.add_middleware(Guard, authentication=authentication, open_paths=open_paths)
    return app


@asynccontextmanager
async def _few_threads(_: FastAPI) -> AsyncIterator[None]:
    current_default_thread_limiter().total_tokens = _THREADS
    yield


def _answer_errors(app: FastAPI) -> None:
    """Gives every error one form: `{"error": "one sentence"}`."""
    app.add_exception_handler(RefusedError, _refused)
    app.add_exception_handler(DeadLetterError, _not_allowed)
    app.add_exception_handler(StoreError, _store_is_down)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _not_found)
    app.add_exception_handler(Exception, _failed)


def _refused(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RefusedError)
    return _answer(error.status, str(error))


def _not_allowed(_: Request, error: Exception) -> JSONResponse:
    return _answer(HTTPStatus.CONFLICT, str(error))


def _store_is_down(_: Request, error: Exception) -> JSONResponse:
    return _answer(HTTPStatus.SERVICE_UNAVAILABLE, str(error), {"Retry-After": "5"})


def _invalid(_: Request, error: Exception) -> JSONResponse:
    """Names the place and the rule; what was sent may be a payload, and stays out of it."""
    assert isinstance(error, RequestValidationError)
    problems = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
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
