"""A headless Chromium for tests, and what it sees of a page."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.patience import PATIENCE_S

_LIGHT = "chromium-headless-shell"
"""Draws the same pages in a third of the processor's time, as it has no window to show them in."""
_PROGRAMS = (_LIGHT, "chromium", "chromium-browser", "google-chrome")
_INSTALL = ("apt-get", "install", "-y", "-q", "--no-install-recommends", _LIGHT)
_INSTALL_LIMIT_S = 600
_DRAWN = "html[data-charts=drawn]"


Scheme = Literal["light", "dark"]


class NoChromiumError(Exception):
    """A browser cannot be had on this machine; one line that says why and what to do."""


def chromium() -> str:
    """The browser on the path; Debian's package is installed where there is none."""
    found = _found()
    if found is None:
        _install()
        found = _found()
    if found is None:
        raise NoChromiumError(f"Debian's package {_LIGHT} is installed, and is not there")
    return found


def _found() -> str | None:
    return next(filter(None, map(shutil.which, _PROGRAMS)), None)


def _install() -> None:
    remedy = "install a Chromium, so that `chromium` is on the path"
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise NoChromiumError(
            f"tests of the report need a browser, and only root's apt-get: {remedy}"
        )
    silent = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (("apt-get", "update", "-q"), _INSTALL):
        done = subprocess.run(
            command,
            env=silent,
            capture_output=True,
            text=True,
            check=False,
            timeout=_INSTALL_LIMIT_S,
        )
        if done.returncode:
            last = (done.stdout + done.stderr).strip().rpartition("\n")[2]
            raise NoChromiumError(f"`{' '.join(command)}` failed ({last}): {remedy}")


@dataclass
class Seen:
    """A page that is open, and what its browser has to say of it."""

    page: Page
    output: list[str] = field(default_factory=list)
    asked_for: list[str] = field(default_factory=list)


@contextmanager
def browser() -> Iterator[Browser]:
    """The installed Chromium. What is expected of its pages may take a slow machine long."""
    expect.set_options(timeout=PATIENCE_S * 1000)
    with sync_playwright() as playwright:
        # Root's Chromium has no sandbox; what it opens here is a page of ours.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        opened = playwright.chromium.launch(executable_path=chromium(), args=options)
        try:
            yield opened
        finally:
            opened.close()


def new_page(by: Browser, width: int = 1280, scheme: Scheme = "light") -> Page:
    """An empty page with cookies of its own, which waits as long as tests do."""
    page = by.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.set_default_timeout(PATIENCE_S * 1000)
    return page


@contextmanager
def seen(by: Browser, file: Path, width: int, scheme: Scheme = "light") -> Iterator[Seen]:
    """The page of a file, once all its charts are drawn."""
    page = new_page(by, width, scheme)
    found = Seen(page)
    page.on("console", lambda message: found.output.append(message.text))
    page.on("pageerror", lambda error: found.output.append(str(error)))
    page.on("dialog", lambda dialog: found.output.append(dialog.message))
    page.on("request", lambda request: found.asked_for.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_selector(_DRAWN, state="attached")
    yield found
    page.close()
