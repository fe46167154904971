"""Everyone learns who they are; a browser signs in and out."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from linear_retry.web import Access, HttpServer, networks
from linear_retry.web.security.authentication import CSRF_HEADER
from tests.patience import PATIENCE_S
from tests.scheduler.http.conftest import ACCESS, PASSWORD, USERS, client_of, served

_SESSION = "/api/v1/session"
_SIGN_IN = f"{_SESSION}/sign-in"
_SIGN_OUT = f"{_SESSION}/sign-out"


def _error(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]


def test_who_i_am(ann: httpx.Client, vic: httpx.Client) -> None:
    """Name and role; who sends a password needs no token."""
    assert {"name": "ann", "role": "operator", "csrf_token": None} == ann.get(_SESSION).json()
    assert "viewer" == vic.get(_SESSION).json()["role"]


@pytest.mark.parametrize(
    "header",
    ["Basic YW5uOndyb25n", "Basic bm9ib2R5OnMzY3JldA==", "Basic ?", "", "\xff"],
)
def test_wrong_credentials(anyone: httpx.Client, header: str) -> None:
    """A wrong password, an unknown name and garbled headers get the same answer."""
    answer = anyone.get(_SESSION, headers={b"Authorization": header.encode("latin-1")})
    assert (401, "wrong name or password") == _error(answer)
    # A browser that is asked would send the password with every page's requests.
    assert "WWW-Authenticate" not in answer.headers


@pytest.mark.parametrize("header", ["Bearer x", "Bearer \xff", "BEARER y"])
def test_wrong_tokens(anyone: httpx.Client, header: str) -> None:
    """Whatever is in the header."""
    answer = anyone.get(_SESSION, headers={b"Authorization": header.encode("latin-1")})
    assert (401, "wrong token") == _error(answer)


def test_a_user_without_a_password_cannot_sign_in(anyone: httpx.Client) -> None:
    """Only a proxy vouches for them."""
    for password in (PASSWORD, ""):
        answer = anyone.post(_SIGN_IN, json={"name": "pat", "password": password})
        assert 401 == answer.status_code


def test_a_browser_signs_in_and_out(server: HttpServer) -> None:
    """The cookie is out of reach of scripts and other sites, and names the session until then."""
    with client_of(server) as browser:
        answer = browser.post(_SIGN_IN, json={"name": "ann", "password": PASSWORD})
        cookie = answer.headers["Set-Cookie"]
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
        assert answer.json() == browser.get(_SESSION).json()
        assert 64 == len(answer.json()["csrf_token"])
        assert 204 == browser.post(_SIGN_OUT).status_code
        assert 401 == browser.get(_SESSION).status_code
        copied = browser.get(_SESSION, headers={"Cookie": cookie.partition(";")[0]})
        assert 401 == copied.status_code


def test_two_servers_of_one_machine_sign_nobody_out(server: HttpServer) -> None:
    """Browsers send a cookie to every port of a host."""
    with served(ACCESS) as other, httpx.Client(timeout=PATIENCE_S) as browser:
        addresses = [f"http://127.0.0.1:{each.port}" for each in (server, other)]
        for address in addresses:
            signed = {"name": "ann", "password": PASSWORD}
            assert browser.post(f"{address}{_SIGN_IN}", json=signed).is_success
        assert [200, 200] == [browser.get(f"{each}{_SESSION}").status_code for each in addresses]


def test_a_viewer_signs_out(server: HttpServer) -> None:
    """It is the one change that they may make."""
    with client_of(server) as browser:
        assert browser.post(_SIGN_IN, json={"name": "vic", "password": PASSWORD}).is_success
        assert browser.post(_SIGN_OUT).is_success
        assert not browser.cookies


def test_a_forged_cookie_is_no_session(server: HttpServer, anyone: httpx.Client) -> None:
    """Nor is one that was changed."""
    forged = f"linear_retry_session_{server.port}=YW5u.9999999999.{'0' * 64}"
    answer = anyone.get(_SESSION, headers={"Cookie": forged})
    assert 401 == answer.status_code


def test_this_machine_is_local() -> None:
    """Without users; its changes need the token, since any page that it looks at can send some."""
    access = Access()
    with served(access) as server, client_of(server) as client:
        found = client.get(_SESSION).json()
        assert ("local", "operator") == (found["name"], found["role"])
        assert 403 == client.post("/api/v1/nothing").status_code
        token = {CSRF_HEADER: found["csrf_token"]}
        assert 404 == client.post("/api/v1/nothing", headers=token).status_code


def test_a_trusted_proxy_names_the_user() -> None:
    """The role is the file's; a name that the file does not have is a viewer's."""
    access = Access(USERS, networks(["127.0.0.1"]), "X-Remote-User")
    with served(access) as server, client_of(server) as proxy:
        for name, role in (("pat", "operator"), ("carol", "viewer")):
            headers = {"X-Remote-User": name, "Authorization": "Bearer the-proxys-own"}
            found = proxy.get(_SESSION, headers=headers).json()
            assert (name, role) == (found["name"], found["role"])
        twice = [("X-Remote-User", "pat"), ("X-Remote-User", "carol")]
        assert (401, "the proxy must name one user") == _error(proxy.get(_SESSION, headers=twice))
        assert 401 == proxy.get(_SESSION, headers={"X-Remote-User": ""}).status_code
        assert 401 == proxy.get(_SESSION).status_code


def test_nobody_else_names_the_user() -> None:
    """The header of an address that is no trusted proxy counts for nothing, forwarded or not."""
    access = Access(USERS, networks(["10.0.0.5"]))
    with served(access) as server, client_of(server) as client:
        forged = {"X-Forwarded-User": "pat", "X-Forwarded-For": "10.0.0.5"}
        assert 401 == client.get(_SESSION, headers=forged).status_code


def test_many_wrong_passwords_lock_nobody_out() -> None:
    """Who has signed in before is answered at once, and so are probes; the rest is refused."""
    with served(ACCESS) as server, client_of(server, "ann") as ann:
        assert 200 == ann.get(_SESSION).status_code
        with ThreadPoolExecutor(40) as pool, client_of(server) as attacker:
            guesses = [
                pool.submit(attacker.get, _SESSION, auth=("ann", str(number)))
                for number in range(60)
            ]
            assert 200 == ann.get(_SESSION).status_code
            assert 200 == ann.get("/livez").status_code
            statuses = {each.result().status_code for each in guesses}
    assert {401, 429} == statuses


def test_what_is_refused_leaves_a_trace(caplog: pytest.LogCaptureFixture) -> None:
    """The bug: who tried tokens or passwords was nowhere to be seen. Not each time: it would fill
    the disk."""
    with served(ACCESS) as server, client_of(server) as stranger, client_of(server, "vic") as vic:
        for _ in range(12):
            stranger.get(_SESSION, headers={"Authorization": "Bearer x"})
        stranger.post(_SIGN_IN, json={"name": "ann", "password": "wrong"})
        assert 403 == vic.post("/api/v1/messages/cancel", json={}).status_code
        # Who has shown no login has tried nothing.
        assert 401 == stranger.get(_SESSION).status_code
    refused = "the API has refused"
    assert [
        f"{refused} a sign-in from 127.0.0.1: wrong token",
        f"{refused} a sign-in from 127.0.0.1: wrong token (10 times)",
        f"{refused} a sign-in from 127.0.0.1: wrong name or password",
        f"{refused} a change by vic from 127.0.0.1: vic is a viewer: a change needs an operator",
    ] == [each for each in caplog.messages if each.startswith(refused)]
