"""Pages of other sites, open in the browser of someone who is signed in, reach nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser, Page, expect

from linear_retry.console.frame.services import Services
from linear_retry.web import HttpServer
from tests import chromium
from tests.console.conftest import address
from tests.scheduler.http.conftest import PASSWORD

_PAGE = """<!doctype html>
<title>Another site</title>
<form method="post" action="{address}/now/order">
  <input name="command" value="give-up">
  <input name="group" value="billing">
  <input name="message" value="orders[0]@1">
  <input name="reason" value="none of yours">
  <button>Win it</button>
</form>
<iframe src="{address}/now"></iframe>
<a href="{address}/audit.csv">A prize</a>
"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is named there
        """Nothing."""


@contextmanager
def _site(directory: Path, console: str) -> Iterator[int]:
    """Serves the page; gives its port."""
    (directory / "index.html").write_text(_PAGE.format(address=console))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(directory))) as server:
        Thread(target=server.serve_forever).start()
        yield server.server_port
        server.shutdown()


@pytest.fixture
def page(browser: Browser, server: HttpServer) -> Iterator[Page]:
    """A page of an operator who has signed in."""
    page = chromium.new_page(browser)
    page.goto(address(server))
    page.get_by_label("Name").fill("ann")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("ann (operator)").wait_for()
    yield page
    page.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_another_site_neither_posts_nor_frames_nor_downloads(
    page: Page, server: HttpServer, services: Services, tmp_path: Path, host: str
) -> None:
    """Be it at the same address, where the browser sends the session, or at another."""
    console = address(server)
    with _site(tmp_path, console) as port:
        page.goto(f"http://{host}:{port}/")
        [frame] = page.main_frame.child_frames
        frame.wait_for_load_state()
        assert ("chrome-error:", False) == (frame.url[:13], "linear_retry" in frame.content())
        with page.expect_response(f"{console}/audit.csv") as answer:
            page.get_by_role("link", name="A prize").click()
        assert 403 == answer.value.status
        page.go_back()
        with page.expect_response(f"{console}/now/order") as answer:
            page.get_by_role("button", name="Win it").click()
        assert 403 == answer.value.status
        expect(page.get_by_text("another site's page may change nothing here")).to_be_visible()
    recorded = {(each.action, each.outcome[:7]) for each in services.audit.read(limit=9)}
    assert {("sign in", "signed "), ("change", "refused")} >= recorded
