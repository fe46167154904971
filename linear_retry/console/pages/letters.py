"""The pages of dead letters: the topics, and the letters of one with filters and groups."""

from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

from linear_retry.console.frame.page import By, Page
from linear_retry.console.frame.rendering import Renderer
from linear_retry.console.frame.services import Services
from linear_retry.console.letters import queries
from linear_retry.console.letters.conditions import SHORTEST_TEXT, LetterFilter
from linear_retry.console.letters.dead_letters import Indexed
from linear_retry.console.letters.query_string import (
    UnreadableError,
    key_text,
    query_of,
    read_filter,
)
from linear_retry.records.text import whole_number
from linear_retry.web.security.authentication import RefusedError

_PATH = "/letters"
_PAGE = 50
_GROUPS, _ALL_GROUPS = 10, 500


def page(services: Services, renderer: Renderer) -> Page:
    """Returns the routes of the pages."""
    routes = APIRouter()
    letters = services.letters

    @routes.get(_PATH)
    def show_topics(request: Request) -> HTMLResponse:
        topics = [
            (each.index.topic, each.indexer.progress, queries.summary(each.index))
            for each in letters.topics()
        ]
        return renderer.page(request, "topics.html", topics=topics, finding=letters)

    @routes.get(f"{_PATH}/{{topic}}")
    def show(request: Request, topic: str, by: By) -> HTMLResponse:
        indexed = known(services, topic)
        wanted = filter_asked(request, sees_keys=services.sees_values(by))
        after = _place(request.query_params.get("after", ""))
        all_groups = "groups" in request.query_params
        found = _found(indexed, wanted, after, _ALL_GROUPS if all_groups else _GROUPS)
        values: dict[str, Any] = {
            "topic": topic,
            "wanted": wanted,
            "query": query_of(wanted),
            "after": after,
            "shortest_text": SHORTEST_TEXT,
        }
        values |= {"all_groups": all_groups, "link": _link, "key_text": key_text}
        return renderer.page(request, "letters.html", **(values | found))

    return Page(routes, "Dead letters", _PATH, 20)


def known(services: Services, topic: str) -> Indexed:
    """Returns the topic. Answers 404 for one that has no dead letters: others are not for here."""
    indexed = services.letters.get(topic)
    if indexed is None:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    return indexed


def filter_asked(request: Request, *, sees_keys: bool) -> LetterFilter:
    """Returns the filter of the address. Raises `RefusedError`."""
    try:
        wanted = read_filter(request.query_params)
    except UnreadableError as error:
        raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None
    if wanted.asks_for_content and not sees_keys:
        raise RefusedError(HTTPStatus.FORBIDDEN, "keys, values and headers are for operators")
    return wanted


def _place(text: str) -> queries.Place | None:
    at_ms, _, number = text.partition(".")
    place = whole_number(at_ms.encode()), whole_number(number.encode())
    return None if place[0] is None or place[1] is None else queries.Place(place[0], place[1])


def _found(
    indexed: Indexed, wanted: LetterFilter, after: queries.Place | None, groups: int
) -> dict[str, Any]:
    index = indexed.index
    search = queries.search(index, wanted)
    listed = queries.page(index, search, limit=_PAGE + 1, after=after)
    has_more = len(listed) > _PAGE
    return {
        "progress": indexed.indexer.progress,
        "summary": queries.summary(index),
        "letters": listed[:_PAGE],
        "next": listed[_PAGE - 1].place if has_more else None,
        "count": queries.count(index, search),
        "counted_most": None if wanted.is_of_kinds else queries.COUNTED,
        "groups": queries.groups(index, search, limit=groups),
        "choices": {name: queries.names(index, name) for name in ("origin", "group_id", "reason")},
    }


def _link(query: dict[str, str], **changed: str | None) -> str:
    """The query of this page with some fields changed; None leaves one out."""
    fields = {name: value for name, value in (query | changed).items() if value is not None}
    return f"?{urlencode(fields)}"
