"""The route by which a browser signs in and out, and anyone asks who they are."""

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from linear_retry.web.security.authentication import Actor, Authentication
from linear_retry.web.security.guard import actor_of
from linear_retry.web.security.sessions import delete_session, set_session
from linear_retry.web.security.users import Role

PATH = "/api/v1/session"
SIGN_IN = f"{PATH}/sign-in"
SIGN_OUT = f"{PATH}/sign-out"

OPEN = (SIGN_IN, SIGN_OUT)
"""Without a login: who signs in has no session yet, and who signs out may be a viewer."""


class Credentials(BaseModel):
    """A name and a password."""

    name: Annotated[str, Field(max_length=100)]
    password: Annotated[str, Field(max_length=1000)]


class Session(BaseModel):
    """Who sends the request. A change needs the token, if there is one, in `X-CSRF-Token`."""

    name: str
    role: Role
    csrf_token: str | None


def routes(authentication: Authentication) -> APIRouter:
    """Returns the routes of sessions."""
    router = APIRouter(tags=["session"])

    def session(actor: Actor) -> Session:
        return Session(
            name=actor.name, role=actor.role, csrf_token=authentication.csrf_token(actor)
        )

    @router.get(PATH)
    def who_am_i(request: Request) -> Session:
        """Returns your name and role, and the token that your changes need."""
        return session(actor_of(request))

    @router.post(SIGN_IN)
    async def sign_in(given: Credentials, request: Request, response: Response) -> Session:
        """Begins a session of 12 hours, which a cookie names."""
        actor, cookie = await authentication.begin_session(request, given.name, given.password)
        set_session(response, request, cookie)
        return session(actor)

    @router.post(SIGN_OUT, status_code=204)
    def sign_out(request: Request, response: Response) -> None:
        """Ends the session of this browser."""
        authentication.end_session(request)
        delete_session(response, request)

    return router
