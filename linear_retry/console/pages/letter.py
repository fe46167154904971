"""The page of one letter, and what is done with it alone."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.exceptions import HTTPException

from linear_retry.console.decoding.views import Decoder, cut, views
from linear_retry.console.frame.page import By, Form, Number, Page, see_other
from linear_retry.console.frame.rendering import Renderer
from linear_retry.console.frame.services import Services
from linear_retry.console.letters import queries
from linear_retry.console.letters.conditions import LetterFilter
from linear_retry.console.letters.query_string import query_of
from linear_retry.console.pages.letters import known
from linear_retry.dlq import DeadLetterTopic, Exported, Filter, Letter, Resolution, State
from linear_retry.dlq.letters.letter import facts_of, read_letter
from linear_retry.dlq.reading.reading import Cluster
from linear_retry.records.retry_headers import EXCEPTION_STACK, HEADER_NAMES
from linear_retry.scope import Place

PATH = "/letters/{topic}/{partition}/{offset}"
_ANSWER_S = 5.0
_GENERATIONS = 50


def page(services: Services, renderer: Renderer) -> Page:
    """Returns the routes of the page."""
    routes = APIRouter(dependencies=[services.asks_brokers])

    @routes.get(PATH)
    def show(
        request: Request, topic: str, partition: Number, offset: Number, by: By
    ) -> HTMLResponse:
        is_changed = "change" in request.query_params
        letter, state, resolution = find(services, topic, partition, offset, is_changed=is_changed)
        return renderer.page(
            request,
            "letter.html",
            letter=letter,
            state=state,
            resolution=resolution,
            address=address(letter),
            facts=[
                (name, cut(name, text).text)
                for name, text in facts_of(letter).items()
                # It has bytes of the headers that cannot be read.
                if name != "problem" or services.sees_values(by)
            ],
            **_history(services, letter),
            stack=cut("stack", letter.exception_stack or ""),
            **(_values(letter, services.decoders) if services.sees_values(by) else {}),
        )

    @routes.post(f"{PATH}/resolve")
    def resolve(
        topic: str, partition: Number, offset: Number, fields: Form, by: By
    ) -> RedirectResponse:
        return _change(
            services, "resolve", Place(topic, partition, offset), by.name, fields.reason()
        )

    @routes.post(f"{PATH}/reopen")
    def reopen(
        topic: str, partition: Number, offset: Number, fields: Form, by: By
    ) -> RedirectResponse:
        return _change(
            services, "reopen", Place(topic, partition, offset), by.name, fields.reason()
        )

    return Page(routes)


def _change(
    services: Services, what: Literal["resolve", "reopen"], place: Place, by: str, why: str
) -> RedirectResponse:
    topic, partition, offset = place
    find(services, topic, partition, offset)  # one that is gone was not done before
    selected = Filter(ranges=((partition, offset, offset),))
    with (
        services.jobs.reserved(topic, what),
        services.audit.recording(by, what, str(place), why=why) as recording,
        opened(services, topic) as letters,
    ):
        if what == "resolve":
            count = letters.resolve(selected, by=by, why=why)
        else:
            count = letters.reopen(selected)
        recording.outcome = "done" if count else "nothing to do: it was done before"
    return see_other(f"/letters/{topic}/{partition}/{offset}", recording.change)


def opened(services: Services, topic: str) -> DeadLetterTopic:
    """Returns the topic; a page does not wait long for its brokers."""
    known(services, topic)
    return DeadLetterTopic(topic, services.settings.kafka, timeout_s=_ANSWER_S)


def find(
    services: Services, topic: str, partition: int, offset: int, *, is_changed: bool = False
) -> tuple[Letter, State, Resolution | None]:
    """Reads one letter. Answers 410 if it is gone.

    Its state is that of the index: to read all resolutions may take seconds. But `is_changed`:
    somebody has just changed it, and the index may not know that yet.
    """
    indexed = services.letters.get(topic)
    if indexed is not None and indexed.indexer.progress.is_current and not is_changed:
        cluster = Cluster(services.settings.kafka, _ANSWER_S)
        if (record := cluster.record_at(topic, partition, offset)) is not None:
            letter = read_letter(record)
            found = queries.resolution(indexed.index, letter)
            return letter, Exported(letter, found).state, found
    with opened(services, topic) as letters:
        if (at := letters.letter_at(partition, offset)) is not None:
            return *at, letters.resolution(at[0])
    raise HTTPException(
        HTTPStatus.GONE,
        f"There is no letter at {Place(topic, partition, offset)}: retention or a purge has "
        "removed it, or it never was there.",
    )


def _history(services: Services, letter: Letter) -> dict[str, Any]:
    """The letters of the same message, the earliest first, and the number of older ones of its key.

    As the index has them.
    """
    indexed = known(services, letter.topic)
    search = queries.search(indexed.index, LetterFilter(name=letter.id, states=()))
    found = queries.page(indexed.index, search, limit=_GENERATIONS)[::-1]
    return {
        "history": found,
        "later": next((each for each in found if each.generation > letter.generation), None),
        "progress": indexed.indexer.progress,
        "older": queries.older_open(indexed.index, letter),
        "older_counted": queries.OLDER_COUNTED,
        "same_key": urlencode(query_of(LetterFilter(key=letter.key))),
    }


def address(letter: Letter) -> str:
    """Returns the path of the letter's page."""
    return f"/letters/{letter.topic}/{letter.partition}/{letter.offset}"


def _values(letter: Letter, decoders: Sequence[Decoder]) -> dict[str, Any]:
    """What only those see who may see values."""
    of = letter.topic if letter.origin is None else letter.origin.topic
    return {
        "headers": [
            (name, [] if value is None else views(letter.topic, value), value)
            for name, value in letter.headers
            if name not in HEADER_NAMES
        ],
        "own": [
            (name, cut(name, (value or b"").decode("utf-8", "replace")).text)
            for name, value in letter.headers
            if name in HEADER_NAMES and name != EXCEPTION_STACK
        ],
        "key": views(of, letter.key, decoders),
        "value": views(of, letter.value, decoders),
    }
