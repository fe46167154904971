"""Finds out who sends a request, and whether they may; a guesser has to wait."""

import asyncio
import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from linear_retry.web.security.access import Access, is_loopback
from linear_retry.web.security.sessions import Sessions, basic_credentials, bearer_token, session_of
from linear_retry.web.security.users import Role, Users

CSRF_HEADER = "X-CSRF-Token"

_NOTHING = re.compile(r"(?!)")
_SAFE = {"GET", "HEAD", "OPTIONS"}
_CHECKS_AT_ONCE = 2
"""A check of a password takes 64 MiB and a core: more at once would stop the service."""
_CHECKS_WAITING = 20

_FREE = 10
_LONGEST_S = 60
_FORGOTTEN_S = 15 * 60
_MOST = 10_000
_NAME_CHARACTERS = 100


class RefusedError(Exception):
    """The request is answered with `status` and the one sentence of this error."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class Actor:
    """Who sends a request. `subject` is what its CSRF token belongs to; None: it needs none."""

    name: str
    role: Role
    subject: str | None = None

    @property
    def sees_payloads(self) -> bool:
        """Whether keys, values and headers are for this actor."""
        return self.role == "operator"


class Authentication:
    """Names the actor of a request, and refuses what they may not do.

    With `has_forms`, changes come from forms of the server's own pages: their browser must say so,
    which takes the place of a token; and another site's page may load nothing, and open pages but
    those whose path `not_linked` matches. With `is_read_only`, nobody may change anything.
    """

    def __init__(
        self,
        access: Access,
        clock_s: Callable[[], float] = time.time,
        *,
        has_forms: bool = False,
        not_linked: re.Pattern[str] = _NOTHING,
        is_read_only: bool = False,
    ) -> None:
        self._access = access
        self._has_forms = has_forms
        self._not_linked = not_linked
        self._is_read_only = is_read_only
        self._sessions = Sessions(clock_s)
        self._checks = asyncio.Semaphore(_CHECKS_AT_ONCE)
        self._waiting = 0
        # Two: names that nobody has could push out the failures of those that somebody has.
        self._attempts = {is_known: Attempts() for is_known in (True, False)}

    def check_origin(self, request: Request) -> None:
        """Raises `RefusedError` for a foreign `Host`, and for what another site's page may not."""
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or not self._access.is_known_host(hosts[0]):
            raise RefusedError(
                HTTPStatus.MISDIRECTED_REQUEST,
                "this host name is not the server's; use its address, or start it with --host-name",
            )
        if not _is_cross_site(request, hosts[0]):
            return
        if is_change(request):
            raise RefusedError(HTTPStatus.FORBIDDEN, "another site's page may change nothing here")
        # Without users no cookie is needed: any page that somebody looks at could keep the server
        # busy, and fill its disk, with pictures that are exports.
        if self._has_forms and not self._may_be_opened(request):
            raise RefusedError(HTTPStatus.FORBIDDEN, "another site's page may load nothing here")

    def _may_be_opened(self, request: Request) -> bool:
        """Whether a link on another site leads to a page of this one."""
        is_page = request.headers.get("Sec-Fetch-Dest") == "document"
        return is_page and self._not_linked.search(request.scope["path"]) is None

    async def actor_of(self, request: Request) -> Actor:
        """Returns who sends the request. Raises `RefusedError` if nobody is named, or wrongly."""
        # First: a proxy may send an `Authorization` of its own.
        if (actor := self._by_proxy(request)) is not None:
            return actor
        authorization = request.headers.get("Authorization")
        if authorization is not None:
            if (token := bearer_token(authorization)) is not None:
                return self._by_token(token)
            return await self._by_password(request, basic_credentials(authorization))
        session = session_of(request)
        if session is not None and (name := self._sessions.name_of(session)) is not None:
            return self._known(name, session)
        if self._access.is_local and is_loopback(_peer(request)):
            return Actor("local", "operator", "local")
        # No WWW-Authenticate: a browser that has been asked sends the password with every page's
        # requests, other sites' too.
        raise RefusedError(
            HTTPStatus.UNAUTHORIZED,
            "a name and a password (HTTP Basic), a token (Bearer) or a session is needed",
        )

    def is_signed_in(self, actor: Actor) -> bool:
        """Whether the actor's session has not ended since; a proxy's and a local one have none."""
        subject = actor.subject
        if subject in (None, "local", actor.name):
            return True
        return self._sessions.name_of(subject or "") is not None

    def check_role(self, actor: Actor) -> None:
        """Raises `RefusedError` unless the actor may change something."""
        if self._is_read_only:
            raise RefusedError(
                HTTPStatus.FORBIDDEN, "this is read-only: it was started with --read-only"
            )
        if actor.role != "operator":
            raise RefusedError(
                HTTPStatus.FORBIDDEN, f"{actor.name} is a {actor.role}: a change needs an operator"
            )

    def check_change(self, request: Request, actor: Actor) -> None:
        """Raises `RefusedError` unless the actor may change something with this request."""
        self.check_role(actor)
        if actor.subject is None:
            return
        token = request.headers.get(CSRF_HEADER, "")
        if self._has_forms:
            _check_own_page(request)
        elif not self._sessions.is_csrf_token(token, actor.subject):
            raise RefusedError(
                HTTPStatus.FORBIDDEN,
                f"a change needs the header {CSRF_HEADER} with the token of GET /api/v1/session",
            )

    def end_session(self, request: Request) -> str | None:
        """Ends the session of the request's cookie; returns whose it was, None without one."""
        session = session_of(request)
        name = None if session is None else self._sessions.name_of(session)
        if session is not None:
            self._sessions.end(session)
        return name

    async def begin_session(self, request: Request, name: str, password: str) -> tuple[Actor, str]:
        """Returns the actor and a new session. Raises `RefusedError` for a wrong password."""
        actor = await self._by_password(request, (name, password))
        session = self._sessions.issue(actor.name)
        return self._known(name, session), session

    def csrf_token(self, actor: Actor) -> str | None:
        """Returns the token that a change of this actor needs, if any."""
        return None if actor.subject is None else self._sessions.csrf_token(actor.subject)

    def _by_token(self, token: str) -> Actor:
        users = self._access.users
        name = None if users is None else users.name_of(token)
        if name is None:
            raise RefusedError(HTTPStatus.UNAUTHORIZED, "wrong token")
        return self._known(name, None)

    async def _by_password(self, request: Request, credentials: tuple[str, str] | None) -> Actor:
        users = self._access.users
        if (
            users is not None
            and credentials is not None
            and (
                users.has_shown(*credentials)
                or await self._checked(users, _peer(request), *credentials)
            )
        ):
            return self._known(credentials[0], None)
        raise RefusedError(HTTPStatus.UNAUTHORIZED, "wrong name or password")

    async def _checked(self, users: Users, peer: str, name: str, password: str) -> bool:
        if self._waiting >= _CHECKS_WAITING:
            raise RefusedError(
                HTTPStatus.TOO_MANY_REQUESTS, "too many passwords at once; try later"
            )
        # The same for a name that nobody has: else it would be found out which there are.
        attempts = self._attempts[users.role_of(name) is not None]
        if wait_s := attempts.begin(peer, name):
            raise RefusedError(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"too many wrong passwords; try again in {wait_s} s",
            )
        self._waiting += 1
        try:
            async with self._checks:
                is_right = await run_in_threadpool(users.has_password, name, password)
        finally:
            self._waiting -= 1
        if is_right:
            attempts.passed(peer, name)
        return is_right

    def _by_proxy(self, request: Request) -> Actor | None:
        names = request.headers.getlist(self._access.user_header)
        if not names or not self._access.is_trusted_proxy(_peer(request)):
            return None
        # Two of them: the proxy appends to what the client sends, so either may be the client's.
        if len(names) > 1 or not names[0].strip() or not names[0].isprintable():
            raise RefusedError(HTTPStatus.UNAUTHORIZED, "the proxy must name one user")
        return self._known(names[0], names[0])

    def _known(self, name: str, subject: str | None) -> Actor:
        users = self._access.users
        return Actor(name, (users and users.role_of(name)) or "viewer", subject)


def is_change(request: Request) -> bool:
    """Whether the request may change something."""
    return request.method not in _SAFE


def _peer(request: Request) -> str:
    return "" if request.client is None else request.client.host


def _check_own_page(request: Request) -> None:
    """Raises `RefusedError` unless a browser says that the request comes from this site's page.

    Without both headers it is refused too: every browser of today sends one of them.
    """
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    is_own = site == "same-origin" or (site is None and origin is not None)
    if not is_own or _is_cross_site(request, request.headers["Host"]):
        raise RefusedError(HTTPStatus.FORBIDDEN, "a change must come from one of these pages")


def _is_cross_site(request: Request, host: str) -> bool:
    """Whether a browser says that the request comes from another site's page."""
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    if site is not None:
        return site not in {"same-origin", "none"}
    return origin is not None and urlsplit(origin).netloc != host


@dataclass(frozen=True, slots=True)
class _Failures:
    count: int
    until_s: float


class Attempts:
    """Counts wrong passwords by the address they come from and the name.

    After ten, the next must wait for 1, 2, 4 ... up to 60 seconds; 15 minutes without any
    reset the count. By the name alone, anybody could lock an operator out.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic, most: int = _MOST) -> None:
        """Of more than `most` addresses and names, those that failed longest ago are forgotten."""
        self._clock_s, self._most = clock_s, most
        self._failures: OrderedDict[tuple[str, str], _Failures] = OrderedDict()

    def begin(self, address: str, name: str) -> int:
        """Counts an attempt as failed; returns the seconds that it must wait for, if any.

        Before the password is checked: many guesses at once would else be one failure each. One
        that must wait is not counted.
        """
        key, now_s = (address, name[:_NAME_CHARACTERS]), self._clock_s()
        failures = self._failures.get(key, _Failures(0, now_s))
        if now_s < failures.until_s:
            return math.ceil(failures.until_s - now_s)
        count = 1 if now_s - failures.until_s > _FORGOTTEN_S else failures.count + 1
        wait_s = 0 if count < _FREE else min(2 ** min(count - _FREE, 10), _LONGEST_S)
        self._failures[key] = _Failures(count, now_s + wait_s)
        self._failures.move_to_end(key)
        if len(self._failures) > self._most:
            self._failures.popitem(last=False)
        return 0

    def passed(self, address: str, name: str) -> None:
        """Forgets the failures: the password was right."""
        self._failures.pop((address, name[:_NAME_CHARACTERS]), None)
