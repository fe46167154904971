"""The cookie that names a browser's session."""

from starlette.requests import Request
from starlette.responses import Response

from linear_retry.web.security.sessions import LENGTH_S

COOKIE = "linear_retry_session"


def set_session(response: Response, request: Request, session: str) -> None:
    """Lets the browser keep the session; only over HTTPS, if its page came that way."""
    # Behind a proxy that ends TLS the connection is plain, and the browser alone knows.
    origin = request.headers.get("Origin", "")
    response.set_cookie(
        COOKIE,
        session,
        max_age=LENGTH_S,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https" or origin.startswith("https:"),
    )


def delete_session(response: Response) -> None:
    """Lets the browser forget the session."""
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
