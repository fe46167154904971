"""Puts the API together: routes, the guard before them, and the form of errors."""

from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from linear_retry.scheduler.http import session_routes
from linear_retry.scheduler.http.access import Access
from linear_retry.scheduler.http.authentication import Authentication, RefusedError
from linear_retry.scheduler.http.guard import Guard

DESCRIPTION = "What waits in the store and what is dead in it, seen and changed."


def create_app(access: Access) -> FastAPI:
    """Returns the API as an ASGI application."""
    authentication = Authentication(access)
    app = FastAPI(
        title="linear_retry scheduler",
        description=DESCRIPTION,
        version="1",
        openapi_url="/api/v1/openapi.json",
        # The pages load their scripts from other hosts.
        docs_url=None,
        redoc_url=None,
    )
    app.include_router(session_routes.routes(authentication))
    _answer_errors(app)
    app.add_middleware(Guard, authentication=authentication, open_paths=session_routes.OPEN)
    return app


def _answer_errors(app: FastAPI) -> None:
    """Gives every error one form: `{"error": "one sentence"}`."""
    app.add_exception_handler(RefusedError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _not_found)


def _refused(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RefusedError)
    return _answer(error.status, str(error))


def _invalid(_: Request, error: Exception) -> JSONResponse:
    """Names the place and the rule; what was sent may be a payload, and stays out of it."""
    assert isinstance(error, RequestValidationError)
    problems = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
    return _answer(HTTPStatus.UNPROCESSABLE_ENTITY, "; ".join(problems))


def _not_found(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    text = f"{request.method} {request.url.path}: {error.detail}; see /api/v1/openapi.json"
    return _answer(error.status_code, text)


def _answer(status: int, text: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": text}, status, headers)
