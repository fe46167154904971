"""What a module of `pages/` gives to the console, and what all routes share: the audit, too."""

import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, TypeAlias
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import RedirectResponse
from starlette.concurrency import run_in_threadpool

from linear_retry.console.frame.services import Services
from linear_retry.console.state.state import StateError
from linear_retry.log.lines import log_unaudited
from linear_retry.web.security.authentication import Actor, RefusedError, is_change
from linear_retry.web.security.guard import actor_of

LONGEST_REASON = 255
"""As long as a command of the control topic may have it."""
_MOST_FIELDS = 2_000

Number: TypeAlias = Annotated[int, Path(ge=0, le=2**63 - 1)]
"""The annotation of a number in a route's path that SQLite and Kafka can take."""
By: TypeAlias = Annotated[Actor, Depends(actor_of)]
"""The annotation of a route's parameter that takes who asks."""
LOGIN, LOGOUT = "/login", "/logout"
_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.CONFLICT)


@dataclass(frozen=True, slots=True)
class Page:
    """The routes of one module of pages, and its entry in the navigation, if it has one.

    Entries are sorted by `order`: now 10, dead letters 20, jobs 30, stored 40, outages 50, audit
    60.
    """

    routes: APIRouter
    title: str = ""
    path: str = ""
    order: int = 0


class Fields:
    """The fields of a form that was sent."""

    def __init__(self, body: bytes) -> None:
        """Raises `RefusedError` for more fields than any page has."""
        # Surrogates: what is not UTF-8 must not end as a 500.
        text = body.decode("utf-8", "replace")
        try:
            self._fields = parse_qs(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
        except ValueError:
            raise RefusedError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the form has more than {_MOST_FIELDS:,} fields: send fewer at once",
            ) from None

    def text(self, name: str) -> str:
        """Returns the field's text, without spaces around it; empty if it is missing."""
        return self._fields.get(name, [""])[0].strip()

    def texts(self, name: str) -> tuple[str, ...]:
        """Returns the texts of all fields of this name, such as those of check boxes."""
        return tuple(self._fields.get(name, ()))

    def pairs(self) -> list[tuple[str, str]]:
        """Returns each field's name and text."""
        return [(name, text) for name, texts in self._fields.items() for text in texts]

    def has(self, name: str) -> bool:
        """Whether the field was sent, as a check box is that is ticked."""
        return name in self._fields

    def reason(self) -> str:
        """Returns the field `reason`. Raises `RefusedError` if it is missing or too long."""
        text = " ".join(self.text("reason").split())
        if not text or len(text) > LONGEST_REASON:
            raise RefusedError(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"give a reason of at most {LONGEST_REASON} characters: the audit has it",
            )
        return text


async def _fields(request: Request) -> Fields:
    # The guard has checked the size. A thread: megabytes would hold up every other page.
    return await run_in_threadpool(Fields, await request.body())


Form: TypeAlias = Annotated[Fields, Depends(_fields)]
"""The annotation of a route's parameter that takes the fields of the form."""


def see_other(path: str, change: int | None = None) -> RedirectResponse:
    """Answers a form that was carried out: the browser opens `path`.

    The page shows what came of it there, if `change` is its number in the audit.
    """
    url = path if change is None else f"{path}{'&' if '?' in path else '?'}change={change}"
    return RedirectResponse(url, HTTPStatus.SEE_OTHER)


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
