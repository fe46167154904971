"""The page of what is going on now: groups, members, open circuits, and how to end a wait."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any, get_args

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, Response, StreamingResponse

from linear_retry.console.frame.page import By, Form, Page, see_other
from linear_retry.console.frame.rendering import Renderer
from linear_retry.console.frame.services import Places, Services
from linear_retry.console.live.hub import Hub, Snapshot
from linear_retry.console.live.orders import Order, Orders
from linear_retry.journal.group_state import GroupView
from linear_retry.journal.standing import GroupStatus, Standing, status_of
from linear_retry.retry.clock import now_ms

_PARTS = ("summary", "groups")
_MOST_GROUPS = 100
_RANKS = get_args(GroupStatus)
_ORDERS = 4
"""At once: each waits for up to half a minute."""
_RENDERED = 2
"""At once, in threads of their own: what waits for brokers holds up no open page."""
_PAUSE_S = 0.5
_AGAIN_S = 5.0
_LONGEST_S = 600.0
"""Then the browser connects again, and it is checked again whether it may."""


def page(services: Services, renderer: Renderer) -> Page:
    """Returns the routes of the page."""
    routes, hub = APIRouter(), services.live.hub
    ordering = Depends(Places("the answers of consumers", _ORDERS).take)
    rendering = ThreadPoolExecutor(_RENDERED, "linear_retry rendering")
    orders = Orders(services.settings, services.audit)

    @routes.get("/now")
    def show(request: Request) -> HTMLResponse:
        return renderer.page(request, "now.html", **_shown(hub, request))

    @routes.get("/now/stream")
    def stream(request: Request, by: By) -> StreamingResponse:
        def part(name: str) -> str:
            return renderer.text(request, f"_now_{name}.html", **_shown(hub, request))

        async def render(name: str) -> str:
            return await asyncio.get_running_loop().run_in_executor(rendering, part, name)

        def is_open() -> bool:
            return not hub.is_closed and services.authentication.is_signed_in(by)

        return StreamingResponse(_events(hub, is_open, render), media_type="text/event-stream")

    def question(request: Request, order: Order, *, last: bool = False, why: str = "") -> Response:
        view = hub.newest.view(order.group)
        return renderer.page(request, "now_order.html", order=order, last=last, why=why, view=view)

    @routes.get("/now/order")
    def ask(request: Request) -> Response:
        return question(request, Order.of(request.query_params.multi_items()))

    @routes.post("/now/order", dependencies=[ordering])
    def give(request: Request, fields: Form, by: By) -> Response:
        order = Order.of(fields.pairs())
        why = fields.reason() if order.needs_reason else fields.text("reason")
        given = orders.give(order, by.name, why)
        if given.last:
            again = Order(order.command, order.group, given.last, is_last=True)
            return question(request, again, last=True, why=why)
        return see_other("/now", given.change)

    return Page(routes, "Now", "/now", 10)


def _shown(hub: Hub, request: Request) -> dict[str, Any]:
    """The groups to show, the most urgent first, and how many more there are.

    Every change is sent to each browser: a page of thousands would keep the server busy with it.
    """
    snapshot, name = hub.newest, request.query_params.get("group", "")
    rows = [_row(snapshot, view) for view in snapshot.views]
    named = [row for row in rows if name in row.view.group]
    shown = nsmallest(_MOST_GROUPS, named, key=lambda row: (row.rank, row.view.group))
    hub.look(row.view.group for row in shown)
    return {
        "snapshot": snapshot,
        "statuses": Counter(row.status for row in rows),
        "circuits": [each for row in rows if row.status != "past" for each in row.view.circuits],
        "rows": shown,
        "more": len(named) - len(shown),
        "name": name,
    }


@dataclass(frozen=True, slots=True)
class _Row:
    """A group on the page."""

    view: GroupView
    standing: Standing
    status: GroupStatus

    @property
    def rank(self) -> int:
        """The most urgent first: where messages wait for nobody, or may."""
        is_calm = self.status == "no-member" and self.standing.waiting == 0
        return _RANKS.index("idle" if is_calm else self.status)


def _row(snapshot: Snapshot, view: GroupView) -> _Row:
    liveness = snapshot.liveness.get(view.group)
    standing = (
        Standing(is_asked=False)
        if liveness is None
        else Standing.of(liveness, snapshot.lags.get(view.group, {}))
    )
    return _Row(view, standing, status_of(view, standing.liveness, now_ms()))


async def _events(
    hub: Hub, is_open: Callable[[], bool], render: Callable[[str], Awaitable[str]]
) -> AsyncIterator[str]:
    """Yields each part of the page that differs from what was sent, at most twice a second.

    Ends when it is not open any more: its user has signed out, or the server ends.
    """
    ends_at_s, sent = time.monotonic() + _LONGEST_S, dict[str, str]()
    while time.monotonic() < ends_at_s and is_open():
        version = hub.newest.version
        for name in _PARTS:
            html = await render(name)
            if html != sent.get(name):
                sent[name] = html
                yield f"event: part\ndata: {json.dumps([name, html])}\n\n"
        # A comment: a browser that is gone is noticed when something is sent.
        yield ": \n\n"
        await asyncio.sleep(_PAUSE_S)
        # Not only at the next change: an attempt begins when its time has come.
        await hub.changed(version, _AGAIN_S)
