"""A browser, and `linear-retry console` in a process of its own over a real broker."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page

from tests import chromium, dying_with_parent
from tests.console.browser.axe import WIDTHS
from tests.console.browser.consuming import Line
from tests.dlq.conftest import scene
from tests.dlq.scene import NewScene, Scene
from tests.kafka_operations import wait_until
from tests.real_kafka import RealKafka, free_ports

__all__ = ["scene"]

_START_S = 60
_UNANSWERED = ("net::ERR_", "htmx:sendError", "htmx:afterRequest")
"""What is complained of where a test has killed the console under a page."""


@dataclass(slots=True)
class ConsoleProcess:
    """The command over a scene's topics, which can be killed and started again."""

    given: Scene
    directory: Path
    port: int
    options: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] = field(init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it; wait until it answers."""
        command = [sys.executable, "-c", "from linear_retry.cli import main; main()", "console"]
        command += ["-b", self.given.kafka.bootstrap, "--dead-letters", self.given.letters]
        command += ["--state", str(self.directory / "state"), "--http", f"127.0.0.1:{self.port}"]
        guarded = dying_with_parent.guarded(*command, *self.options)
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(guarded, cwd=self.directory, stderr=log)
        wait_until(self._answers, "the console answers", _START_S, self._log)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(_START_S)

    def _answers(self) -> bool:
        assert self.process.poll() is None, self._log()
        try:
            return httpx.get(f"{self.url}/now", timeout=5).status_code < 500
        except httpx.TransportError:
            return False

    def _log(self) -> str:
        return (self.directory / "log").read_text()


@contextmanager
def running(given: Scene, directory: Path, *options: str) -> Iterator[ConsoleProcess]:
    """Runs the command, with these options too."""
    console = ConsoleProcess(given, directory, free_ports(1)[0], options)
    try:
        console.start()
        yield console
    finally:
        console.kill()


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


@pytest.fixture(params=WIDTHS)
def width(request: pytest.FixtureRequest) -> int:
    """A desk's screen, and then a telephone's."""
    found: int = request.param
    return found


NewPage = Callable[..., Page]
"""The fixture that opens pages: `new_page(width=1280)`."""


@pytest.fixture
def new_page(browser: Browser) -> Iterator[NewPage]:
    """Opens pages, each in a browser of its own, which must have nothing to complain of."""
    with ExitStack() as closing:
        yield lambda width=1280: closing.enter_context(_page(browser, width))


@pytest.fixture
def page(new_page: NewPage, width: int) -> Page:
    """A page of that width."""
    return new_page(width)


@contextmanager
def _page(browser: Browser, width: int) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": width, "height": 900})
    page, problems = context.new_page(), list[str]()
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    yield page
    too_wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
    context.close()
    others = [each for each in problems if not any(word in each for word in _UNANSWERED)]
    assert ([], False) == (others, too_wide)
