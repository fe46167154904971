"""Shows pages of the repository from outside `docs/` on the site."""

import re
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
PAGES = {
    "CHANGELOG.md": "about/changelog.md",
    "CONTRIBUTING.md": "about/contributing.md",
    "VERSIONING.md": "about/versioning.md",
    "benchmarks/README.md": "about/performance.md",
    "examples/README.md": "guides/examples.md",
    "strategies/README.md": "guides/strategies.md",
}
"""The page of the site for each."""

_TITLE = re.compile(r"\A# (.*)\n")
_HEADING = re.compile(r"^#", re.MULTILINE)
_CODE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]+)?\)")
_NOT_IN_SLUGS = re.compile(r"[^\w\- ]")


def root_page(name: str) -> str:
    """Returns a page without its title, with links to their targets on the site."""
    text = _TITLE.sub("", (ROOT / name).read_text("utf-8"))
    folder = PurePosixPath(name).parent
    return _LINK.sub(lambda found: _on_site(folder, *found.groups("")), text)


def examples() -> str:
    """Returns a section for each example, with its page."""
    pages = sorted(path.relative_to(ROOT) for path in ROOT.glob("examples/*/README.md"))
    return "\n\n".join(
        f"## {_title(path)}\n{_demoted(root_page(path.as_posix()))}" for path in pages
    )


def _demoted(text: str) -> str:
    """Lowers headings by one level, but not comments in blocks of code."""
    parts = _CODE.split(text)
    parts[::2] = [_HEADING.sub("##", prose) for prose in parts[::2]]
    return "".join(parts)


def _title(path: Path) -> str:
    found = _TITLE.match((ROOT / path).read_text("utf-8"))
    return found[1] if found else path.parent.name


def _on_site(folder: PurePosixPath, text: str, link: str, anchor: str) -> str:
    path = (ROOT / folder / link).resolve().relative_to(ROOT)
    if path.as_posix() in PAGES:
        return f"[{text}](/{PAGES[path.as_posix()]}{anchor})"
    if path.match("examples/*/README.md"):
        return f"[{text}](/{PAGES['examples/README.md']}#{_slug(_title(path))})"
    # A path that begins with a slash is relative to docs/; others are offered for download.
    if path.parts[0] == "docs":
        return f"[{text}](/{path.relative_to('docs').as_posix()}{anchor})"
    return f"{{download}}`{text} </../{path.as_posix()}>`"


def _slug(title: str) -> str:
    """Returns the anchor that MyST, like GitHub, assigns to a heading."""
    return _NOT_IN_SLUGS.sub("", title.lower()).replace(" ", "-")
