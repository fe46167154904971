"""An HTTP server that soon hangs up on who is silent, and knows its connections."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from aiohttp import web

from tests.patience import PATIENCE_S

SILENCE_S = 3.0


@dataclass(slots=True)
class HealthServer:
    """`ports` has, request by request, its path and the client's end of its connection."""

    url: str = ""
    ports: list[tuple[str, int]] = field(default_factory=list)

    def ports_of(self, path: str) -> list[int]:
        return [port for each, port in self.ports if each == path]


@contextmanager
def serving() -> Iterator[HealthServer]:
    """In a thread, on a loop of its own: nothing that blocks its clients' loop blocks it."""
    served, ready, over = HealthServer(), threading.Event(), threading.Event()

    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        served.ports.append((request.path, request.transport.get_extra_info("peername")[1]))
        return web.Response()

    async def serve() -> None:
        app = web.Application()
        app.router.add_get("/{any}", answer)
        runner = web.AppRunner(app, keepalive_timeout=SILENCE_S, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        served.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        ready.set()
        await asyncio.to_thread(over.wait)
        await runner.cleanup()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(PATIENCE_S)
        yield served
    finally:
        over.set()
        thread.join()
