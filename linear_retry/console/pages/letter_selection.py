"""The page that counts the letters of a filter, and plans what is done with only these."""

from dataclasses import replace
from http import HTTPStatus

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from linear_retry.console.frame.page import By, Form, Page, see_other
from linear_retry.console.frame.rendering import Renderer
from linear_retry.console.frame.services import Services
from linear_retry.console.jobs.job import Action
from linear_retry.console.letters import queries
from linear_retry.console.letters.queries import filter_of
from linear_retry.console.letters.query_string import (
    UnreadableError,
    query_of,
    read_selection,
    selection_text,
)
from linear_retry.console.pages.jobs import action_of, options_of
from linear_retry.console.pages.letters import filter_asked, known
from linear_retry.web.security.authentication import RefusedError

_PATH = "/letters/{topic}/selection"


def page(services: Services, renderer: Renderer) -> Page:
    """Returns the routes of the page."""
    routes = APIRouter()

    @routes.get(_PATH)
    def show(request: Request, topic: str, by: By, action: Action = Action.REPLAY) -> HTMLResponse:
        services.authentication.check_role(by)
        indexed = known(services, topic)
        _check_action(action)
        asked = filter_asked(request, sees_keys=True)
        states = tuple(each for each in action.states if each in asked.states) or action.states
        selection = queries.selected(indexed.index, replace(asked, states=states))
        return renderer.page(
            request,
            "selection.html",
            topic=topic,
            action=action,
            selection=selection,
            query=query_of(selection.filter),
            text=selection_text(selection),
            progress=indexed.indexer.progress,
        )

    @routes.post(_PATH)
    def plan(topic: str, fields: Form, by: By) -> RedirectResponse:
        index, action = known(services, topic).index, action_of(fields)
        _check_action(action)
        try:
            selection = read_selection(topic, fields.text("selection"))
        except UnreadableError as error:
            raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None
        queries.check(index, selection)
        chosen = filter_of(index, selection)
        options = replace(options_of(services, fields), selected=selection.count)
        job_id = services.jobs.plan(topic, action, chosen, options, actor=by.name)
        return see_other(f"/jobs/{job_id}")

    return Page(routes)


def _check_action(action: Action) -> None:
    if action is Action.PURGE:
        raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, "a purge takes no selection")
