"""Sessions of browsers: signed names with an end, their cookie, and the tokens beside them."""

import base64
import hmac
import secrets
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

LENGTH_S = 12 * 3600


class Sessions:
    """Issues and reads sessions; the key lives as long as the process, and so do they."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._key = secrets.token_bytes()
        self._clock_s = clock_s
        self._ended: dict[str, int] = {}

    def issue(self, name: str) -> str:
        """Returns a new session, which ends after `LENGTH_S`."""
        ends_s = int(self._clock_s()) + LENGTH_S
        encoded = base64.urlsafe_b64encode(name.encode()).decode()
        content = f"{encoded}.{ends_s}.{secrets.token_hex(8)}"
        return f"{content}.{self._signature('session', content)}"

    def name_of(self, session: str) -> str | None:
        """Returns whose session it is; None if it is not one of ours, or has ended."""
        content, _, signature = session.rpartition(".")
        if not _same(signature, self._signature("session", content)) or content in self._ended:
            return None
        name, ends_s = _parts(content)
        return name if self._clock_s() < ends_s else None

    def end(self, session: str) -> None:
        """Ends a session of ours before its time: its cookie may have been copied."""
        if self.name_of(session) is None:
            return
        now_s, content = self._clock_s(), session.rpartition(".")[0]
        kept = {each: ends_s for each, ends_s in self._ended.items() if now_s < ends_s}
        self._ended = kept | {content: _parts(content)[1]}

    def csrf_token(self, of: str) -> str:
        """Returns the token that a change needs: another site's page cannot read it."""
        return self._signature("csrf", of)

    def is_csrf_token(self, token: str, of: str) -> bool:
        """Whether this is the token that belongs to the session or the name `of`."""
        return _same(token, self.csrf_token(of))

    def _signature(self, purpose: str, content: str) -> str:
        # The purpose: else a session's signature would do as a token, and the other way round.
        text = f"{purpose}\0{content}".encode()
        return hmac.digest(self._key, text, "sha256").hex()


def _parts(content: str) -> tuple[str, int]:
    name, ends_s, _ = content.split(".")
    return base64.urlsafe_b64decode(name).decode(), int(ends_s)


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


def bearer_token(header: str) -> str | None:
    """Returns the token of an `Authorization: Bearer` header; None if it is not one."""
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def basic_credentials(header: str) -> tuple[str, str] | None:
    """Returns name and password of an `Authorization: Basic` header; None if it is not one."""
    scheme, _, digits = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = (
            base64.b64decode(digits.strip(), validate=True).decode().partition(":")
        )
    except ValueError:  # not ASCII, not base64, not UTF-8
        return None
    return (name, password) if colon else None


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
