"""The page of the outages of the last days."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from linear_retry.console.frame.page import Page
from linear_retry.console.frame.rendering import Renderer
from linear_retry.console.frame.services import Services
from linear_retry.console.live.outages import KINDS, Kind, kind_of, length_ms, timeline
from linear_retry.journal.outages import Outage
from linear_retry.records.durations import DAY_MS
from linear_retry.retry.clock import now_ms

_DAYS = {1: "the last 24 hours", 7: "the last 7 days", 30: "the last 30 days"}
_ROWS = 200


def page(services: Services, renderer: Renderer) -> Page:
    """Returns the routes of the page."""
    live, routes = services.live, APIRouter()

    @routes.get("/outages")
    def show(
        request: Request, days: Annotated[int, Query(ge=1, le=366)] = 7, group: str = ""
    ) -> HTMLResponse:
        until_ms = now_ms()
        from_ms = until_ms - days * DAY_MS
        known = live.history.since(from_ms)
        chosen = [each for each in known.outages if group in ("", each.group)]
        return renderer.page(
            request,
            "outages.html",
            spans=_DAYS | {days: _DAYS.get(days, f"the last {days} days")},
            days=days,
            groups=sorted({each.group for each in known.outages} | ({group} - {""})),
            group=group,
            troubles=known.troubles,
            snapshot=live.hub.newest,
            from_ms=from_ms,
            timeline=timeline(chosen, from_ms, until_ms),
            kinds=KINDS,
            total=len(chosen),
            open_ms=sum(length_ms(each, until_ms) for each in chosen),
            rows=_rows(chosen, until_ms),
        )

    return Page(routes, "Outages", "/outages", 50)


def _rows(outages: Sequence[Outage], until_ms: int) -> list[tuple[Outage, int, Kind]]:
    """The latest, with how long each was open, and how it ended."""
    latest = sorted(outages, key=lambda each: each.began_ms, reverse=True)[:_ROWS]
    return [(each, length_ms(each, until_ms), kind_of(each)) for each in latest]
