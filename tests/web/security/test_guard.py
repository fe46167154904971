"""No request reaches a route before host, page, sender, role, token and size are checked."""

import socket

import httpx
import pytest

from linear_retry.web import HttpServer
from linear_retry.web.security.authentication import CSRF_HEADER
from linear_retry.web.security.guard import MAX_OPEN_BODY_BYTES
from tests.patience import PATIENCE_S
from tests.scheduler.http.conftest import PASSWORD, TOKENS, client_of

_NOWHERE = "/api/v1/nothing"
_SIGN_IN = "/api/v1/session/sign-in"


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost/api/v1/session/sign-in?", "a@127.0.0.1"]
)
@pytest.mark.parametrize("path", [_NOWHERE, _SIGN_IN, "/livez"])
def test_a_foreign_host_is_refused(ann: httpx.Client, host: str, path: str) -> None:
    """On every path, also those that need no login."""
    assert 421 == ann.get(path, headers={"Host": host}).status_code


def test_a_second_host_is_refused(server: HttpServer) -> None:
    """Two parsers could choose one each."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as plain:
        plain.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
        assert plain.recv(100).split()[1] in {b"400", b"421"}


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT", "PATCH", "OPTIONS", "HEAD"])
def test_every_path_needs_a_login(anyone: httpx.Client, method: str) -> None:
    """Also one that does not exist: a new route cannot be forgotten."""
    assert 401 == anyone.request(method, _NOWHERE).status_code
    assert 401 == anyone.request(method, "/api/v1/openapi.json").status_code


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "PATCH"])
def test_a_viewer_changes_nothing(vic: httpx.Client, method: str) -> None:
    """Whatever the path is."""
    answer = vic.request(method, _NOWHERE)
    assert (403, "vic is a viewer: a change needs an operator") == (
        answer.status_code,
        answer.json()["error"],
    )


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
    ],
)
@pytest.mark.parametrize("path", [_NOWHERE, _SIGN_IN])
def test_another_sites_page_changes_nothing(
    ann: httpx.Client, headers: dict[str, str], path: str
) -> None:
    """Even with a password that the browser knows."""
    assert 403 == ann.post(path, headers=headers).status_code
    assert 404 == ann.get(_NOWHERE, headers=headers).status_code


def test_a_session_changes_with_its_token_alone(server: HttpServer) -> None:
    """Without one, with another session's, and with the cookie's own text it does not."""
    with client_of(server) as browser, client_of(server) as other:
        given = {"name": "ann", "password": PASSWORD}
        token = browser.post(_SIGN_IN, json=given).json()["csrf_token"]
        others = other.post(_SIGN_IN, json=given | {"name": "vic"}).json()["csrf_token"]
        for wrong in ({}, {CSRF_HEADER: others}, {CSRF_HEADER: ""}):
            assert 403 == browser.post(_NOWHERE, headers=wrong).status_code
        origin = {"Origin": str(browser.base_url).rstrip("/")}
        assert 404 == browser.post(_NOWHERE, headers={CSRF_HEADER: token} | origin).status_code


@pytest.mark.parametrize(("name", "status"), [("deploy", 404), ("dashboard", 403)])
def test_a_token_has_the_role_of_its_user(server: HttpServer, name: str, status: int) -> None:
    """No browser sends it by itself, so that a change needs no other token beside it."""
    with client_of(server) as program:
        program.headers["Authorization"] = f"bearer {TOKENS[name]}"
        assert name == program.get("/api/v1/session").json()["name"]
        assert status == program.post(_NOWHERE).status_code


def test_a_token_is_no_password(anyone: httpx.Client) -> None:
    """Nor is a password a token: each is compared with its own kind of hash."""
    given = {"name": "deploy", "password": TOKENS["deploy"]}
    assert 401 == anyone.get(_NOWHERE, auth=("deploy", TOKENS["deploy"])).status_code
    assert 401 == anyone.post(_SIGN_IN, json=given).status_code
    headers = {"Authorization": f"Bearer {PASSWORD}"}
    assert 401 == anyone.get(_NOWHERE, headers=headers).status_code


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (f"Content-Length: {MAX_OPEN_BODY_BYTES + 1}", b"413"),
        ("Transfer-Encoding: chunked", b"411"),
    ],
)
def test_a_large_body_is_not_read(server: HttpServer, header: str, status: bytes) -> None:
    """Nor one of an unknown size: the answer comes before the body, on open paths soonest."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as plain:
        head = f"POST {_SIGN_IN} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n\r\n"
        plain.sendall(head.encode())
        assert status == plain.recv(100).split()[1]


def test_nothing_is_kept_by_browsers(anyone: httpx.Client, ann: httpx.Client) -> None:
    """Every answer, refusals included, is not to be stored, sniffed or framed."""
    for answer in (anyone.get(_NOWHERE), ann.get("/api/v1/session"), ann.get(_NOWHERE)):
        assert "no-store" == answer.headers["Cache-Control"]
        assert "nosniff" == answer.headers["X-Content-Type-Options"]
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]


def test_errors_have_one_form(ann: httpx.Client) -> None:
    """One sentence; what was sent is not in it."""
    answer = ann.get(_NOWHERE)
    assert {"error": f"GET {_NOWHERE}: Not Found; see /api/v1/openapi.json"} == answer.json()
    answer = ann.post(_SIGN_IN, json={"name": "ann", "password": ["s3cret"]})
    assert 422 == answer.status_code
    assert {"error": "body.password: Input should be a valid string"} == answer.json()
    answer = ann.post(_SIGN_IN, data={"name": "ann", "password": "s3cret"})
    rule = "must be a JSON object, with Content-Type: application/json"
    assert {"error": f"body: {rule}"} == answer.json()
    answer = ann.post(_SIGN_IN, content=b'{"name', headers={"Content-Type": "application/json"})
    assert {"error": "body.1: at this byte it is not JSON"} == answer.json()
