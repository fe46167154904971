"""Logs what was refused: wrong tokens and passwords, and changes that somebody may not make."""

import time
from http import HTTPStatus

from starlette.requests import Request

from linear_retry.log.error_throttle import ErrorThrottle
from linear_retry.log.lines import log_refused
from linear_retry.scheduler.http.session_routes import SIGN_IN
from linear_retry.web.security.authentication import Actor, RefusedError, is_change


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
