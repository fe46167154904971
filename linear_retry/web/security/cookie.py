"""The cookie that names a browser's session."""

from starlette.requests import Request
from starlette.responses import Response

from linear_retry.web.security.sessions import LENGTH_S


def session_of(request: Request) -> str | None:
    """Returns the session that the browser has kept for this server; None without one."""
    return request.cookies.get(cookie_name(request))


def cookie_name(request: Request) -> str:
    """Returns the cookie's name, which has the server's own port.

    Browsers send a cookie to every port of a host: a scheduler and a console on one machine would
    sign each other's users out.
    """
    _, port = request.scope["server"]
    return f"linear_retry_session_{port}"


def set_session(response: Response, request: Request, session: str) -> None:
    """Lets the browser keep the session; only over HTTPS, if its page came that way."""
    # Behind a proxy that ends TLS the connection is plain, and the browser alone knows.
    origin = request.headers.get("Origin", "")
    response.set_cookie(
        cookie_name(request),
        session,
        max_age=LENGTH_S,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https" or origin.startswith("https:"),
    )


def delete_session(response: Response, request: Request) -> None:
    """Lets the browser forget the session."""
    response.delete_cookie(cookie_name(request), httponly=True, samesite="strict")
