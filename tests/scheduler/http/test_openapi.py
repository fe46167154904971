"""Every route of the API is guarded, and none fails or leaks for what is sent to it."""

import logging

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from linear_retry.scheduler.http import create_app
from linear_retry.store import dead_letters, messages
from linear_retry.store.database import Database
from linear_retry.web import HttpServer
from linear_retry.web.security.authentication import CSRF_HEADER
from tests.scheduler.http.conftest import ACCESS, PASSWORD, TOKENS, client_of
from tests.scheduler.http.openapi import PRIVATE, Operation, operations
from tests.store.contents import new_dead_letter, new_message

_DESCRIPTION = create_app(Database("sqlite:////nowhere/store.sqlite3"), ACCESS).openapi()
_ALL = list(operations(_DESCRIPTION))
_SIGNING = ("/api/v1/session/sign-in", "/api/v1/session/sign-out")
_GUARDED = [each for each in _ALL if each.path not in ("/livez", "/readyz", *_SIGNING)]
_CHANGES = [each for each in _GUARDED if each.method != "GET"]


def test_all_routes_are_described() -> None:
    """So the tests below are about all of them."""
    assert {
        "GET /api/v1/session",
        "POST /api/v1/session/sign-in",
        "POST /api/v1/session/sign-out",
        "GET /api/v1/messages",
        "GET /api/v1/messages/selection",
        "GET /api/v1/messages/{message_id}",
        "POST /api/v1/messages/send-now",
        "POST /api/v1/messages/postpone",
        "POST /api/v1/messages/delete",
        "POST /api/v1/messages/give-up",
        "POST /api/v1/messages/{message_id}/edit",
        "GET /api/v1/dead-letters",
        "GET /api/v1/dead-letters/selection",
        "GET /api/v1/dead-letters/{letter_id}",
        "POST /api/v1/dead-letters/forward",
        "POST /api/v1/dead-letters/delete",
        "POST /api/v1/dead-letters/{letter_id}/edit-and-forward",
        "GET /api/v1/statistics",
        "GET /api/v1/audit",
        "GET /metrics",
        "GET /livez",
        "GET /readyz",
    } == set(map(str, _ALL))


def test_the_logins_are_described() -> None:
    """A client that is generated sends a password or a token, and neither where none is needed."""
    schemes = _DESCRIPTION["components"]["securitySchemes"]
    assert {"basic", "bearer"} == {each["scheme"] for each in schemes.values()}
    assert [[name] for name in schemes] == [[*each] for each in _DESCRIPTION["security"]]
    without = {
        path
        for path, methods in _DESCRIPTION["paths"].items()
        if any(operation.get("security") == [] for operation in methods.values())
    }
    assert {"/livez", "/readyz", *_SIGNING} == without


@pytest.mark.parametrize("operation", _GUARDED, ids=str)
def test_a_login_is_needed(anyone: httpx.Client, operation: Operation) -> None:
    """No name, a wrong password or token, or a session that has been forged: 401."""
    method, path = operation.method, operation.example
    assert 401 == anyone.request(method, path).status_code
    # Not always the same name: whoever guesses ten times has to wait.
    assert 401 == anyone.request(method, path, auth=(str(operation), "wrong")).status_code
    for token in ("Bearer wrong", "Bearer", f"Basic {TOKENS['deploy']}", TOKENS["deploy"]):
        headers = {"Authorization": token}
        assert 401 == anyone.request(method, path, headers=headers).status_code
    forged = {"Cookie": "linear_retry_session=YW5u.99999999999.00"}
    assert 401 == anyone.request(method, path, headers=forged).status_code


@pytest.mark.parametrize("operation", _ALL, ids=str)
def test_a_foreign_host_is_refused(ann: httpx.Client, operation: Operation) -> None:
    """Also where no login is needed."""
    foreign = {"Host": "rebound.example"}
    assert 421 == ann.request(operation.method, operation.example, headers=foreign).status_code


@pytest.mark.parametrize("operation", _CHANGES, ids=str)
def test_a_change_needs_an_operator(vic: httpx.Client, operation: Operation) -> None:
    """A viewer gets 403 before anything is read of the request's body; so does their token."""
    assert 403 == vic.request(operation.method, operation.example, content=b"{").status_code
    bearer = {"Authorization": f"Bearer {TOKENS['dashboard']}"}
    with httpx.Client(base_url=vic.base_url, headers=bearer) as client:
        assert 403 == client.request(operation.method, operation.example, content=b"{").status_code


@pytest.mark.parametrize("operation", _CHANGES, ids=str)
def test_a_change_in_a_session_needs_its_token(server: HttpServer, operation: Operation) -> None:
    """Without it 403; with it the request is read, and is incomplete."""
    with client_of(server) as browser:
        given = {"name": "ann", "password": PASSWORD}
        token = browser.post(_SIGNING[0], json=given).json()["csrf_token"]
        assert 403 == browser.request(operation.method, operation.example).status_code
        headers = {CSRF_HEADER: token}
        answer = browser.request(operation.method, operation.example, headers=headers)
        assert 422 == answer.status_code


def test_hostile_texts(
    operator: httpx.Client, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """SQL, HTML and control characters in every field: no failure, no harm, nothing in a log."""
    with database.begin() as connection:
        rows = [new_message(value=PRIVATE.encode(), due_ms=10**14)] * 3
        messages.add(database, connection, rows)
        letters = [new_dead_letter(value=PRIVATE.encode(), destination="__x")] * 3
        dead_letters.add(database, connection, letters)

    @settings(
        max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    @given(st.data())
    def send(data: st.DataObject) -> None:
        operation = data.draw(st.sampled_from(_ALL))
        answer = operation.send(operator, data.draw)
        assert answer.status_code < 500, answer.text
        kind = answer.headers.get("Content-Type", "application/json")
        assert operation.path == "/metrics" or "application/json" == kind
        assert "Set-Cookie" not in answer.headers or operation.path in _SIGNING

    caplog.set_level(logging.DEBUG)
    caplog.handler.setFormatter(logging.Formatter("%(name)s %(message)s"))
    send()
    found = [
        line
        for record in caplog.records
        if not record.name.startswith(("httpx", "httpcore"))
        and PRIVATE in (line := caplog.handler.format(record))
    ]
    assert [] == found
