"""Shows pages of the repository that stand outside `docs/` on the site."""

import re
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
PAGES = {
    "CHANGELOG.md": "about/changelog.md",
    "CONTRIBUTING.md": "about/contributing.md",
    "VERSIONING.md": "about/versioning.md",
    "benchmarks/README.md": "about/performance.md",
    "strategies/README.md": "guides/strategies.md",
}
"""Where the site shows each."""

_TITLE = re.compile(r"\A# .*\n")
_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(#[^)\s]+)?\)")


def root_page(name: str) -> str:
    """A page without its title, its links leading to where the site has their targets."""
    text = _TITLE.sub("", (ROOT / name).read_text("utf-8"))
    folder = PurePosixPath(name).parent
    return _LINK.sub(lambda found: f"]({_on_site(folder, found[1])}{found[2] or ''})", text)


def _on_site(folder: PurePosixPath, link: str) -> str:
    path = (ROOT / folder / link).resolve().relative_to(ROOT).as_posix()
    # A path that begins with a slash is one below docs/; others are files to download.
    return f"/{PAGES[path]}" if path in PAGES else f"/../{path}".replace("/../docs/", "/")
