"""An API on a port, with its users and clients of theirs."""

import hashlib
from collections.abc import Iterator

import argon2
import httpx
import pytest

from linear_retry.scheduler.destination_setting import remember
from linear_retry.scheduler.destinations import Destinations
from linear_retry.scheduler.http import create_app
from linear_retry.store.database import Database
from linear_retry.web import Access, HttpServer, Users, serve
from linear_retry.web.security.users import User
from tests.patience import PATIENCE_S

PASSWORD = "s3cret"
HASH = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)

TOKENS = {"deploy": "a-t0ken-of-an-operator", "dashboard": "a-t0ken-of-a-viewer"}


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


USERS = Users(
    [
        User("ann", "operator", HASH),
        User("vic", "viewer", HASH),
        User("pat", "operator"),
        User("deploy", "operator", token_hash=_hash(TOKENS["deploy"])),
        User("dashboard", "viewer", token_hash=_hash(TOKENS["dashboard"])),
    ]
)


ACCESS = Access(USERS)
DESTINATIONS = Destinations("billing.scheduled", ("orders*",))


def client_of(server: HttpServer, name: str | None = None) -> httpx.Client:
    """A client that sends name and password, or neither."""
    auth = None if name is None else (name, PASSWORD)
    return httpx.Client(base_url=f"http://127.0.0.1:{server.port}", auth=auth, timeout=PATIENCE_S)


def served(access: Access) -> HttpServer:
    """An API for tests that need no store: nothing connects to it."""
    return serve(create_app(Database("sqlite:////nowhere/store.sqlite3"), access), access, 0)


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    """An API with users, and without a store."""
    with served(ACCESS) as server:
        yield server


@pytest.fixture
def api(database: Database) -> Iterator[HttpServer]:
    """An API over a store, in SQLite and then in PostgreSQL."""
    remember(database, DESTINATIONS)
    with serve(create_app(database, ACCESS), ACCESS, 0) as server:
        yield server


@pytest.fixture(scope="module")
def anyone(server: HttpServer) -> Iterator[httpx.Client]:
    """Over no store."""
    with client_of(server) as client:
        yield client


@pytest.fixture(scope="module")
def ann(server: HttpServer) -> Iterator[httpx.Client]:
    """An operator, over no store."""
    with client_of(server, "ann") as client:
        yield client


@pytest.fixture(scope="module")
def vic(server: HttpServer) -> Iterator[httpx.Client]:
    """A viewer, over no store."""
    with client_of(server, "vic") as client:
        yield client


@pytest.fixture
def operator(api: HttpServer) -> Iterator[httpx.Client]:
    """An operator, over a store."""
    with client_of(api, "ann") as client:
        yield client


@pytest.fixture
def viewer(api: HttpServer) -> Iterator[httpx.Client]:
    """A viewer, over a store."""
    with client_of(api, "vic") as client:
        yield client
