"""A console on a port, with users and clients of theirs; its brokers are away."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import httpx
import pytest
from starlette.routing import Route

from linear_retry.console import pages
from linear_retry.console.app import create_app
from linear_retry.console.frame.rendering import Renderer
from linear_retry.console.frame.services import Services
from linear_retry.console.state.settings import Settings
from linear_retry.journal import DEFAULT_TOPIC
from linear_retry.store.database import Database
from linear_retry.web import Access, HttpServer, serve
from tests.patience import PATIENCE_S
from tests.scheduler.http.conftest import ACCESS, PASSWORD


@contextmanager
def settings_in(directory: Path, sqlite_url: str) -> Iterator[Settings]:
    """Everything that a page may need is given, and nothing of it answers but an empty store."""
    store = Database(sqlite_url)
    yield Settings(
        kafka={"bootstrap.servers": "localhost:1"},
        state=directory / "console",
        journal=DEFAULT_TOPIC,
        control="linear-retry.control",
        dead_letters=("orders.dlq",),
        store=store,
    )
    store.close()


@pytest.fixture
def settings(tmp_path: Path, sqlite_url: str) -> Iterator[Settings]:
    """Those of this test's own console."""
    with settings_in(tmp_path, sqlite_url) as given:
        yield given


@pytest.fixture
def services(settings: Settings) -> Iterator[Services]:
    """With users."""
    with Services(settings, ACCESS) as services:
        yield services


@pytest.fixture
def server(services: Services) -> Iterator[HttpServer]:
    """A console with users."""
    with serve(create_app(services), services.access, 0) as server:
        yield server


@pytest.fixture
def local(settings: Settings) -> Iterator[HttpServer]:
    """A console without users: everyone on this machine is an operator."""
    with serve_local(settings) as server:
        yield server


@contextmanager
def serve_local(settings: Settings) -> Iterator[HttpServer]:
    """Serves it with a state of its own."""
    with (
        Services(replace(settings, state=settings.state / "local"), Access()) as services,
        serve(create_app(services), services.access, 0) as server,
    ):
        yield server


def routes_of(services: Services) -> Iterator[Route]:
    """Every route of the pages: an application does not say which its routers have."""
    for module in iter_modules(pages.__path__, f"{pages.__name__}."):
        page = import_module(module.name).page(services, Renderer(services))
        if page is not None:
            yield from page.routes.routes


def address(server: HttpServer) -> str:
    """Where the server is."""
    return f"http://127.0.0.1:{server.port}"


@contextmanager
def signed_in(server: HttpServer, name: str) -> Iterator[httpx.Client]:
    """A client with a session, whose requests say that they come from a page of the console."""
    headers = {"Origin": address(server)}
    with httpx.Client(base_url=address(server), headers=headers, timeout=PATIENCE_S) as client:
        answer = client.post("/login", data={"name": name, "password": PASSWORD, "next": "/now"})
        assert (303, "/now") == (answer.status_code, answer.headers["Location"])
        yield client
