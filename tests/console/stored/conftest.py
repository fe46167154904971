"""A console over a store that has something in it."""

from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from linear_retry.console.app import create_app
from linear_retry.console.frame.services import Services
from linear_retry.console.state.settings import Settings
from linear_retry.scheduler.destination_setting import remember
from linear_retry.scheduler.destinations import Destinations
from linear_retry.store import dead_letters, messages
from linear_retry.store.database import Database
from linear_retry.web import HttpServer, serve
from tests.console.conftest import signed_in
from tests.scheduler.http.conftest import ACCESS
from tests.store.contents import new_dead_letter, new_message

HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e"


@pytest.fixture
def server(settings: Settings, database: Database) -> Iterator[HttpServer]:
    """A console over 150 messages and three dead letters, one of which may go nowhere."""
    remember(database, Destinations("billing.scheduled", ("orders*",)))
    with database.begin() as connection:
        waiting = [new_message(due_ms=10**12 + number, key=b"secret") for number in range(150)]
        messages.add(database, connection, waiting)
        letters = [new_dead_letter(error=HOSTILE, key=b"\xff", value=HOSTILE.encode())] * 2
        letters.append(new_dead_letter(destination="__secret"))
        dead_letters.add(database, connection, letters)
    with (
        Services(replace(settings, store=database), ACCESS) as services,
        serve(create_app(services), services.access, 0) as server,
    ):
        yield server


@pytest.fixture
def operator(server: HttpServer) -> Iterator[httpx.Client]:
    """Ann, who may change things."""
    with signed_in(server, "ann") as client:
        yield client
