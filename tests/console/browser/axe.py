"""What axe finds on a page, and whether the page fits the screen."""

from importlib.resources import files
from typing import Literal

from playwright.sync_api import Page

WIDTHS = (1280, 400)
_RUNS: tuple[tuple[int, Literal["light", "dark"], str], ...] = (
    (400, "light", "axe.run()"),
    (1280, "light", "axe.run()"),
    (1280, "dark", "axe.run({ runOnly: ['color-contrast'] })"),
)
"""Nothing but colours depends on the scheme, and no colour on the width."""


def is_too_wide(page: Page, width: int) -> bool:
    """Whether the page does not fit a screen of this width, which it has from now on."""
    page.set_viewport_size({"width": width, "height": 900})
    return bool(page.evaluate("document.documentElement.scrollWidth > innerWidth"))


def violations(page: Page) -> list[str]:
    """Returns what is wrong with the page at each width, light and dark; it stays as it was."""
    found, before = [], page.viewport_size
    page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text("utf-8"))
    for width, scheme, run in _RUNS:
        found += [f"{page.url}: wider than {width} px"] if is_too_wide(page, width) else []
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        for each in page.evaluate(run)["violations"]:
            places = [str(node["html"])[:120] for node in each["nodes"]]
            found.append(f"{page.url}: {each['id']} at {width}, {scheme}: {places}")
    if before is not None:
        page.set_viewport_size(before)
    return found
