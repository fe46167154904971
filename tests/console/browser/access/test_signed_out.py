"""A page that stands open while nobody is signed in any more."""

from playwright.sync_api import Browser, expect

from linear_retry.console.app import create_app
from linear_retry.console.frame.services import Services
from linear_retry.console.state.settings import Settings
from linear_retry.web import serve
from tests.real_kafka import free_ports
from tests.scheduler.http.conftest import ACCESS, PASSWORD


def test_it_goes_to_the_sign_in_and_back(browser: Browser, settings: Settings) -> None:
    """After a restart it said for ever that the connection was lost."""
    (port,) = free_ports(1)
    page = browser.new_page()
    for _ in range(2):
        with (
            Services(settings, ACCESS) as services,
            serve(create_app(services), services.access, port),
        ):
            if page.url == "about:blank":
                page.goto(f"http://127.0.0.1:{port}/now?group=bill")
            expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
            page.get_by_label("Name").fill("vic")
            page.get_by_label("Password").fill(PASSWORD)
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url("**/now?group=bill")
            services.live.hub.close()
    page.close()
