"""An API on a port, with its users and clients of theirs."""

from collections.abc import Iterator

import argon2
import httpx
import pytest

from linear_retry.scheduler.http import Access, HttpServer, Users, create_app, serve
from linear_retry.scheduler.http.users import User

PASSWORD = "s3cret"
_HASH = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)

USERS = Users(
    [User("ann", "operator", _HASH), User("vic", "viewer", _HASH), User("pat", "operator")]
)


def client_of(server: HttpServer, name: str | None = None) -> httpx.Client:
    """A client that sends name and password, or neither."""
    auth = None if name is None else (name, PASSWORD)
    return httpx.Client(base_url=f"http://127.0.0.1:{server.port}", auth=auth, timeout=30)


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    """An API with users."""
    access = Access(USERS)
    with serve(create_app(access), access, 0) as served:
        yield served


@pytest.fixture(scope="module")
def anyone(server: HttpServer) -> Iterator[httpx.Client]:
    with client_of(server) as client:
        yield client


@pytest.fixture(scope="module")
def operator(server: HttpServer) -> Iterator[httpx.Client]:
    with client_of(server, "ann") as client:
        yield client


@pytest.fixture(scope="module")
def viewer(server: HttpServer) -> Iterator[httpx.Client]:
    with client_of(server, "vic") as client:
        yield client
