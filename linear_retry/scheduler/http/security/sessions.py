"""Sessions of browsers: signed names with an end, and the tokens that go with them."""

import base64
import hmac
import secrets
from collections.abc import Callable

LENGTH_S = 12 * 3600


class Sessions:
    """Issues and reads sessions; the key lives as long as the process, and so do they."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._key = secrets.token_bytes()
        self._clock_s = clock_s

    def issue(self, name: str) -> str:
        """Returns a new session, which ends after `LENGTH_S`."""
        ends_s = int(self._clock_s()) + LENGTH_S
        content = f"{base64.urlsafe_b64encode(name.encode()).decode()}.{ends_s}"
        return f"{content}.{self._signature('session', content)}"

    def name_of(self, session: str) -> str | None:
        """Returns whose session it is; None if it is not one of ours, or has ended."""
        content, _, signature = session.rpartition(".")
        if not _same(signature, self._signature("session", content)):
            return None
        name, _, ends_s = content.partition(".")
        return base64.urlsafe_b64decode(name).decode() if self._clock_s() < int(ends_s) else None

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


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


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
