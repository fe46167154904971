"""Downloads: a key or value as it is, and letters as lines of JSON."""

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from functools import partial
from http import HTTPStatus
from tempfile import TemporaryFile
from typing import NamedTuple

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response, StreamingResponse
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException

from linear_retry.console.frame.page import By, Number, Page
from linear_retry.console.frame.rendering import Renderer, counted
from linear_retry.console.frame.services import Services
from linear_retry.console.letters import queries
from linear_retry.console.letters.dead_letters import Indexed
from linear_retry.console.letters.queries import filter_of
from linear_retry.console.pages.letter import PATH, find, opened
from linear_retry.console.pages.letters import filter_asked, known
from linear_retry.dlq import DeadLetterTopic, Exported, Filter
from linear_retry.dlq.export import line_of
from linear_retry.scope import Place
from linear_retry.web.security.authentication import RefusedError

_PART_BYTES = 2**18
_FILE = {"Content-Type": "application/octet-stream"}


def page(services: Services, _: Renderer) -> Page:
    """Returns the routes of the downloads."""
    routes = APIRouter(dependencies=[services.asks_brokers])

    @routes.get(f"{PATH}/{{part}}.bin")
    def part(topic: str, partition: Number, offset: Number, part: str, by: By) -> Response:
        services.check_values(by)
        letter, *_ = find(services, topic, partition, offset)
        content = {"key": letter.key, "value": letter.value}.get(part)
        if content is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        place = Place(topic, partition, offset)
        services.audit.note(by.name, "export", str(place), f"its {part}, {len(content)} bytes")
        name = f"{topic}-{partition}-{offset}-{part}.bin"
        return Response(content, headers=_FILE | _attachment(name))

    @routes.get(f"{PATH}/export.jsonl")
    def one(topic: str, partition: Number, offset: Number, by: By) -> StreamingResponse:
        services.check_values(by)
        with opened(services, topic) as letters:
            selected = Filter(ranges=((partition, offset, offset),))
            about = _About(by.name, str(Place(topic, partition, offset)))
            return _exported(services, letters, selected, f"{topic}-{partition}-{offset}", about)

    @routes.get("/letters/{topic}/export.jsonl", dependencies=[Depends(_one_at_a_time())])
    def several(request: Request, topic: str, by: By) -> StreamingResponse:
        """Those of the filter in the address; without one all letters, in any state."""
        services.check_values(by)
        selected = _selected(request, known(services, topic))
        with opened(services, topic) as letters:
            # Not what is asked for: keys and headers are not for all who may see the audit.
            fields = ", ".join(name for name, text in request.query_params.items() if text)
            about = _About(by.name, f"{topic}, by {fields}" if fields else topic)
            return _exported(services, letters, selected, topic, about)

    return Page(routes)


def _one_at_a_time() -> Callable[[str], AsyncIterator[None]]:
    """Lets one at a time export a topic: each is a file on the disk until it is sent."""
    exported = set[str]()

    async def exporting(topic: str) -> AsyncIterator[None]:
        if topic in exported:
            text = f"{topic} is being exported: wait until that has ended"
            raise RefusedError(HTTPStatus.CONFLICT, text)
        exported.add(topic)
        try:
            yield
        finally:
            exported.discard(topic)

    return exporting


def _selected(request: Request, indexed: Indexed) -> Filter:
    if not request.query_params:
        return Filter()
    wanted = filter_asked(request, sees_keys=True)
    return filter_of(indexed.index, queries.selected(indexed.index, wanted))


class _About(NamedTuple):
    """Who exports, and what: for the audit."""

    actor: str
    subject: str


def _exported(
    services: Services, letters: DeadLetterTopic, selected: Filter, name: str, about: _About
) -> StreamingResponse:
    # Written by one thread, as resolutions need it, before the first byte is sent: an error in the
    # middle would look like the end of the file. Without a name, it goes with its end.
    with ExitStack() as unless_sent:
        file = unless_sent.enter_context(TemporaryFile(dir=services.settings.state))
        count = 0
        for letter, _ in letters.letters(selected):
            count += 1
            file.write(line_of(Exported(letter, letters.resolution(letter))))
        file.seek(0)
        services.audit.note(about.actor, "export", about.subject, counted(count, "letter"))
        unless_sent.pop_all()
    headers = _FILE | _attachment(f"{name}.jsonl")
    parts = iter(partial(file.read, _PART_BYTES), b"")
    return StreamingResponse(parts, headers=headers, background=BackgroundTask(file.close))


def _attachment(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}
