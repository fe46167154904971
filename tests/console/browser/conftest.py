"""A browser with pages, and `linear-retry console` over a real broker."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests import chromium
from tests.console.browser.axe import WIDTHS, is_too_wide
from tests.console.browser.consuming import Line
from tests.console.browser.process import ConsoleProcess, running
from tests.dlq.conftest import scene
from tests.dlq.scene import NewScene, Scene
from tests.real_kafka import RealKafka

__all__ = ["scene"]

_NO_FAULT = (
    # A test has killed the console under a page, or a broker is busy.
    *("net::ERR_", "htmx:sendError", "htmx:afterRequest", "status of 503"),
    # A test has clicked before the page could focus a field.
    "Autofocus processing was blocked",
)
"""What Chromium says that is no fault of a page."""


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """The installed Chromium. Playwright's event loop would disturb asyncio in later tests."""
    with chromium.browser() as opened:
        yield opened


@pytest.fixture
def given(scene: NewScene) -> Scene:
    return scene(2)


@pytest.fixture
def console(given: Scene, tmp_path: Path) -> Iterator[ConsoleProcess]:
    """The command, running."""
    with running(given, tmp_path) as console:
        yield console


@pytest.fixture
def line(kafka: RealKafka) -> Line:
    """Topics of a consumer, on the shared broker."""
    return Line.on(kafka)


@pytest.fixture
def width() -> int:
    """A desk's screen. A module about what is done from a telephone has its own."""
    return WIDTHS[0]


NewPage = Callable[..., Page]
"""The fixture that opens pages: `new_page(width=1280)`."""


@pytest.fixture
def new_page(browser: Browser) -> Iterator[NewPage]:
    """Opens pages, each in a browser of its own, which must have nothing to complain of.

    In the end each fits the screen of a desk, and that of a telephone.
    """
    with ExitStack() as closing:
        yield lambda width=1280: closing.enter_context(_page(browser, width))


@pytest.fixture
def page(new_page: NewPage, width: int) -> Page:
    """A page of that width."""
    return new_page(width)


@contextmanager
def _page(browser: Browser, width: int) -> Iterator[Page]:
    page, problems = chromium.new_page(browser, width), list[str]()
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    yield page
    too_wide = [each for each in WIDTHS if is_too_wide(page, each)]
    page.close()
    others = [each for each in problems if not any(word in each for word in _NO_FAULT)]
    assert ([], []) == (others, too_wide)
