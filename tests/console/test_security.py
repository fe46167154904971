"""Nothing on the console is reached by those who may not, and no page does what it should not."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from shutil import copy

import httpx
import pytest

import linear_retry
from linear_retry.console.app import create_app
from linear_retry.console.frame.services import Services
from linear_retry.console.state.settings import Settings
from linear_retry.web import Access, HttpServer, serve
from tests.console.conftest import address, routes_of, serve_local, settings_in, signed_in
from tests.patience import PATIENCE_S
from tests.scheduler.http.conftest import ACCESS, PASSWORD, TOKENS

_OPEN = {"/login", "/logout"}
_PARAMETER = re.compile(r"\{(\w+)\}")
_GIVEN = {"service": "scheduler", "kind": "waiting"}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Path) -> Iterator[Settings]:
    """Of one console for all of these tests, for it takes seconds to end while brokers are away."""
    directory = tmp_path_factory.mktemp("console")
    store = copy(migrated_sqlite, directory)
    with settings_in(directory, f"sqlite:///{store}") as given:
        yield given


@pytest.fixture(scope="module")
def services(settings: Settings) -> Iterator[Services]:
    """With users."""
    with Services(settings, ACCESS) as services:
        yield services


@pytest.fixture(scope="module")
def server(services: Services) -> Iterator[HttpServer]:
    """The console with users."""
    with serve(create_app(services), services.access, 0) as server:
        yield server


@pytest.fixture(scope="module")
def local(settings: Settings) -> Iterator[HttpServer]:
    """The console without users: everyone on this machine is an operator."""
    with serve_local(settings) as server:
        yield server


def _paths(services: Services, *, changing: bool) -> list[str]:
    """Every path of the console that changes something, or that does not."""
    paths = [
        _PARAMETER.sub(lambda found: _GIVEN.get(found[1], "1"), route.path)
        for route in routes_of(services)
        if ("POST" in (route.methods or ())) == changing and route.path not in _OPEN
    ]
    assert {"/letters", "/stored"} <= {path[: path.find("/", 1)] for path in paths}
    return paths


def _anyone(server: HttpServer) -> httpx.Client:
    return httpx.Client(base_url=address(server), timeout=PATIENCE_S)


def test_every_path_needs_a_login(services: Services, server: HttpServer) -> None:
    """A page sends the browser to the login, and anything else is refused."""
    with _anyone(server) as anyone:
        for path in [*_paths(services, changing=False), "/nothing"]:
            if path.startswith("/static/"):
                continue
            answer = anyone.get(path, headers={"Accept": "text/html"})
            assert (303, f"/login?next={path}") == (answer.status_code, answer.headers["Location"])
            assert 401 == anyone.get(path).status_code


def test_a_viewer_changes_nothing(services: Services, server: HttpServer) -> None:
    """On no path that changes something, with a session and with a token."""
    token = {"Authorization": f"Bearer {TOKENS['dashboard']}"}
    with signed_in(server, "vic") as viewer, _anyone(server) as program:
        for path in [*_paths(services, changing=True), "/nothing"]:
            for answer in (viewer.post(path), program.post(path, headers=token)):
                assert 403 == answer.status_code
                assert "is a viewer: a change needs an operator" in answer.text


def test_read_only(settings: Settings, tmp_path: Path) -> None:
    """Nobody changes anything, but everyone can sign in and look."""
    settings = replace(settings, state=tmp_path, is_read_only=True)
    with (
        Services(settings, Access()) as services,
        serve(create_app(services), services.access, 0) as server,
        _anyone(server) as local,
    ):
        for path in [*_paths(services, changing=True), "/nothing"]:
            answer = local.post(path, headers={"Origin": address(server)})
            assert (403, True) == (answer.status_code, "read-only" in answer.text)
        assert 200 == local.get("/now").status_code


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "null"},
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
    ],
)
@pytest.mark.parametrize("has_users", [True, False])
def test_another_sites_page_changes_nothing(
    server: HttpServer, local: HttpServer, has_users: bool, headers: dict[str, str]
) -> None:
    """Nor does one that sends no word of where it is, with a session or on this machine."""
    with signed_in(server, "ann") if has_users else _anyone(local) as operator:
        operator.headers.pop("Origin", None)
        assert 403 == operator.post("/nothing", headers=headers).status_code


_PICTURE = {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
_FRAME = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
_LINK = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize(
    ("path", "how", "status"),
    [
        ("/now", _PICTURE, 403),
        ("/now", _FRAME, 403),
        ("/static/console.js", _PICTURE, 403),
        ("/now", _LINK, 200),
        ("/jobs", _LINK, 200),
        ("/letters/orders.dlq/export.jsonl", _PICTURE, 403),
        ("/letters/orders.dlq/export.jsonl", _LINK, 403),
        ("/letters/orders.dlq/selection", _LINK, 403),
        ("/audit.csv", _LINK, 403),
        ("/now/stream", _LINK, 403),
    ],
)
def test_another_sites_page_may_only_link_here(
    local: HttpServer, site: str, path: str, how: dict[str, str], status: int
) -> None:
    """To pages that do no work: else any page could fill the disk of who looks at it."""
    with _anyone(local) as anyone:
        answer = anyone.get(path, headers={"Sec-Fetch-Site": site, **how})
    assert status == answer.status_code
    assert "same-origin" == answer.headers["Cross-Origin-Resource-Policy"]


def test_a_topic_is_exported_once_at_a_time(local: HttpServer) -> None:
    """Each is a file on the disk until it is sent."""
    path = "/letters/orders.dlq/export.jsonl"
    with _anyone(local) as anyone, ThreadPoolExecutor(4) as pool:
        answers = [*pool.map(anyone.get, [path] * 4)]
    assert [409, 409, 409, 503] == sorted(each.status_code for each in answers)


def test_its_own_pages_may(server: HttpServer) -> None:
    """A form of the console is told by either header."""
    with signed_in(server, "ann") as operator:
        assert 404 == operator.post("/nothing").status_code
        del operator.headers["Origin"]
        headers = {"Sec-Fetch-Site": "same-origin"}
        assert 404 == operator.post("/nothing", headers=headers).status_code


@pytest.mark.parametrize("path", ["/now", "/login", "/static/console.js", "/nothing"])
def test_a_foreign_host_is_refused(local: HttpServer, path: str) -> None:
    """A name that another site lets point here reaches nothing."""
    with _anyone(local) as anyone:
        assert 421 == anyone.get(path, headers={"Host": "evil.example"}).status_code


def test_headers(local: HttpServer, services: Services) -> None:
    """No page is framed, is cached, or runs what is not a file of the console."""
    with _anyone(local) as anyone:
        for path in [*_paths(services, changing=False), "/login", "/nothing"]:
            with anyone.stream("GET", path) as answer:  # some have no end
                headers = answer.headers
            assert "DENY" == headers["X-Frame-Options"]
            policy = headers["Content-Security-Policy"]
            assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert ("no-store", "nosniff") == (
                headers["Cache-Control"],
                headers["X-Content-Type-Options"],
            )


class _Inline(HTMLParser):
    """Finds scripts and styles that stand in a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {name for name, _ in attrs}
        inline = [name for name in names if name == "style" or name.startswith(("on", "hx-on"))]
        if tag == "style" or (tag == "script" and "src" not in names) or inline:
            self.found.append(self.get_starttag_text() or tag)


def _pages(client: httpx.Client, services: Services) -> Iterator[str]:
    for path in [*_paths(services, changing=False), "/login", "/nothing"]:
        if not path.startswith("/static/") and "stream" not in path:
            yield client.get(path, follow_redirects=True).text


def test_no_page_has_a_script_or_a_style_in_it(local: HttpServer, services: Services) -> None:
    """The policy would not run them, and nobody would notice."""
    with _anyone(local) as anyone:
        for page in _pages(anyone, services):
            inline = _Inline()
            inline.feed(page)
            assert [] == inline.found


@pytest.mark.parametrize(
    "wanted", ["//evil.example", "/\\evil.example", "http://evil.example", "", "now", "/\nnow"]
)
def test_signing_in_leads_to_no_other_site(server: HttpServer, wanted: str) -> None:
    """Whatever address the link to the login has."""
    with signed_in(server, "ann") as anyone:
        form = {"name": "ann", "password": "s3cret", "next": wanted}
        assert "/" == anyone.post("/login", data=form).headers["Location"]


def test_sessions(server: HttpServer) -> None:
    """A wrong password is said on the page; signing out ends the session, not the cookie alone."""
    with signed_in(server, "vic") as viewer:
        wrong = viewer.post("/login", data={"name": "vic", "password": "no", "next": "/now"})
        assert (401, True) == (wrong.status_code, "wrong name or password" in wrong.text)
        assert "vic <span" in viewer.get("/now").text
        copied = dict(viewer.cookies)
        assert "/login" == viewer.post("/logout").headers["Location"]
        assert 401 == viewer.get("/now").status_code
        viewer.cookies.update(copied)
        assert 401 == viewer.get("/now").status_code


@pytest.mark.parametrize("scheme", ["https", "http"])
def test_the_cookie_of_an_https_page_is_sent_over_nothing_else(
    server: HttpServer, scheme: str
) -> None:
    """Behind a proxy that ends TLS too, where the console itself sees plain HTTP."""
    headers = {"Host": "127.0.0.1", "Origin": f"{scheme}://127.0.0.1"}
    with _anyone(server) as anyone:
        form = {"name": "ann", "password": PASSWORD, "next": "/now"}
        answer = anyone.post("/login", data=form, headers=headers)
    assert (303, scheme == "https") == (
        answer.status_code,
        "; Secure" in answer.headers["Set-Cookie"],
    )


def test_a_part_of_a_page_leads_to_the_login(server: HttpServer) -> None:
    """It asks by itself: the whole page goes, and comes back to where it was."""
    asking = {"HX-Request": "true", "HX-Current-URL": f"{address(server)}/letters?text=a"}
    with httpx.Client(base_url=address(server)) as nobody:
        answer = nobody.get("/letters", headers=asking)
    assert (200, b"") == (answer.status_code, answer.content)
    assert "/login?next=/letters%3Ftext%3Da" == answer.headers["HX-Redirect"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/jobs/99999999999999999999", 422),
        ("/letters/orders.dlq/0/99999999999999999999", 422),
        ("/letters/orders.dlq/-1/0", 422),
        ("/letters/%00/0/0", 404),
        ("/letters/orders.dlq/selection?action=purge", 422),
    ],
)
def test_what_no_link_leads_to_is_refused(local: HttpServer, path: str, status: int) -> None:
    """It is no error of the console's."""
    with _anyone(local) as anyone:
        assert status == anyone.get(path).status_code


def test_an_unexpected_error_has_the_headers(settings: Settings, tmp_path: Path) -> None:
    """Its page cannot be framed either, and its text is not on it."""
    with Services(replace(settings, state=tmp_path), Access()) as services:
        app = create_app(services)

        @app.get("/broken")
        def broken() -> None:
            raise AssertionError("secret")

        with serve(app, services.access, 0) as server, _anyone(server) as anyone:
            answer = anyone.get("/broken")
    assert (500, False) == (answer.status_code, "secret" in answer.text)
    assert "DENY" == answer.headers["X-Frame-Options"]
    assert "nosniff" == answer.headers["X-Content-Type-Options"]
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


def test_a_large_form_is_refused(server: HttpServer, local: HttpServer) -> None:
    """Two megabytes of `a&` would take seconds, and need no login on the login's path."""
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": address(server)}
    with _anyone(server) as anyone:
        assert 413 == anyone.post("/login", content="a&" * 2**20, headers=form).status_code
    with _anyone(local) as operator:
        form["Origin"] = address(local)
        answer = operator.post("/jobs", content="a=&" * 3_000, headers=form)
        assert (413, True) == (answer.status_code, "more than 2,000 fields" in answer.text)


def test_who_has_not_signed_in_learns_nothing(server: HttpServer, local: HttpServer) -> None:
    """Neither the brokers nor the version, on the login and on the answer to a foreign host."""
    with _anyone(server) as anyone, _anyone(local) as foreign:
        for page in (anyone.get("/login"), foreign.get("/now", headers={"Host": "evil.example"})):
            assert "localhost:1" not in page.text
            assert linear_retry.__version__ not in page.text
