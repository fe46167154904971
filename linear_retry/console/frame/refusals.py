"""Keeps in the audit who signs in and out, and what was refused: passwords, and changes."""

import time
from http import HTTPStatus

from fastapi import Request

from linear_retry.console.frame.services import Services
from linear_retry.console.state.state import StateError
from linear_retry.log.lines import log_unaudited
from linear_retry.web.security.authentication import Actor, is_change

LOGIN, LOGOUT = "/login", "/logout"
_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.CONFLICT)


def note(services: Services, actor: str, action: str, subject: str, outcome: str) -> None:
    """Writes what changes nothing; to the log if the audit cannot be written.

    With a full disk nobody could sign in to look: each change is still refused, since it is written
    before it is made.
    """
    try:
        services.audit.note(actor, action, subject, outcome)
    except StateError as error:
        entry = f"{actor}, {action}, {subject}: {outcome}"
        count = services.unaudited.count(entry, time.monotonic())
        if count is not None:
            log_unaudited(entry, str(error), count)


def note_refused(
    services: Services, request: Request, actor: str, action: str, error: Exception
) -> None:
    """Writes that something was refused, and from where it came."""
    note(services, actor, action, peer_of(request), f"refused: {error}")


def note_refused_change(
    services: Services, request: Request, status: int, error: Exception
) -> None:
    """Writes it if the request would have changed something, or came with a wrong password."""
    has_login = "Authorization" in request.headers and status == HTTPStatus.UNAUTHORIZED
    path = request.scope["path"]
    if status not in _REFUSED or path == LOGIN or not (has_login or is_change(request)):
        return
    actor: Actor | None = getattr(request.state, "actor", None)
    action = "sign in" if has_login else "change"
    if actor is None:  # without the path, of which a stranger may send any number
        note_refused(services, request, "unknown", action, error)
    else:
        subject = f"{path}, from {peer_of(request)}"
        note(services, actor.name, action, subject, f"refused: {error}")


def peer_of(request: Request) -> str:
    """Returns the address that a request comes from."""
    return "unknown" if request.client is None else request.client.host
