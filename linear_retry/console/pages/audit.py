"""The page of all changes by people, and its files."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from http import HTTPStatus
from typing import Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, StreamingResponse

from linear_retry.console.frame.page import By, Page
from linear_retry.console.frame.rendering import Renderer
from linear_retry.console.frame.services import Services
from linear_retry.console.state.all_changes import AllChanges, Before, Read, RecordedChange, Wanted
from linear_retry.errors import StoreError
from linear_retry.records.printable import in_one_line
from linear_retry.web.security.authentication import RefusedError

_PAGE = 100
_COLUMNS = tuple(each.name for each in fields(RecordedChange))
_TYPES = {"csv": "text/csv; charset=utf-8", "json": "application/x-ndjson"}


def page(services: Services, renderer: Renderer) -> Page:
    """Returns the routes of the page."""
    own, changes = AllChanges(services.audit), AllChanges(services.audit, _of_store(services))
    routes = APIRouter()

    @routes.get("/audit")
    def show(request: Request) -> HTMLResponse:
        wanted = _wanted(request)
        before, trouble = _before(request), None
        try:
            found, after = changes.read(wanted, limit=_PAGE, before=before)
        except StoreError as error:
            trouble = str(error)
            found, after = own.read(wanted, limit=_PAGE, before=before)
        return renderer.page(
            request,
            "audit.html",
            found=found,
            trouble=trouble,
            wanted=wanted,
            query=urlencode(asdict(wanted)),
            more=None if after is None else urlencode(asdict(wanted) | _query(after)),
        )

    @routes.get("/audit.{form}")
    def export(request: Request, form: Literal["csv", "json"], by: By) -> StreamingResponse:
        wanted = _wanted(request)
        # The first page is read before the answer begins, so that an error is one.
        first = changes.read(wanted, limit=_PAGE)
        lines = (_csv if form == "csv" else _json)(_all(changes, wanted, first))
        query = request.url.query
        services.audit.note(
            by.name, "export", f"the audit, {query}" if query else "the audit", form
        )
        name = f'attachment; filename="audit.{form}"'
        return StreamingResponse(
            lines, media_type=_TYPES[form], headers={"Content-Disposition": name}
        )

    return Page(routes, "Audit", "/audit", 60)


def _of_store(services: Services) -> Read | None:
    if services.settings.store is None:
        return None
    # The extra `console` alone has no database driver.
    from linear_retry.console.stored.changes import reader

    return reader(services.settings.store)


def _wanted(request: Request) -> Wanted:
    asked = request.query_params
    return Wanted(asked.get("who", "").strip(), asked.get("what", "").strip())


def _before(request: Request) -> Before:
    ids = (request.query_params.get(name, "") for name in ("console", "store"))
    return Before(*(_number(text) if text else None for text in ids))


def _number(text: str) -> int:
    if text.isascii() and text.isdecimal() and len(text) < 19:
        return int(text)
    raise RefusedError(HTTPStatus.NOT_FOUND, "There is no such page of the audit.")


def _query(before: Before) -> dict[str, int]:
    return {name: number for name, number in asdict(before).items() if number is not None}


def _all(
    changes: AllChanges, wanted: Wanted, first: tuple[list[RecordedChange], Before | None]
) -> Iterator[RecordedChange]:
    found, after = first
    yield from found
    while after is not None:
        found, after = changes.read(wanted, limit=_PAGE, before=after)
        yield from found


def _json(found: Iterable[RecordedChange]) -> Iterator[str]:
    return (f"{json.dumps(asdict(each))}\n" for each in found)


def _csv(found: Iterable[RecordedChange]) -> Iterator[str]:
    yield _line(_COLUMNS)
    for each in found:
        yield _line(_cell(value) for value in asdict(each).values())


def _line(cells: Iterable[object]) -> str:
    written = io.StringIO()
    csv.writer(written).writerow(cells)
    return written.getvalue()


def _cell(value: object) -> str:
    # A spreadsheet would take such a text for a formula, and run it.
    text = in_one_line(str(value))
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
