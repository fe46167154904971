"""Inserts generated content, from the code and from other pages, when the site is built.

A page requests it with an empty block, `{generated} events` or `{root-page} CHANGELOG.md`. The
Markdown replaces the block before the page is parsed, as a directive's content cannot contain
headings of the page.
"""

import re
from collections.abc import Callable
from typing import Any

from docs.generators.acls import acls
from docs.generators.commands import commands, exit_codes
from docs.generators.events import events, journal_fields
from docs.generators.metrics import metrics
from docs.generators.root_pages import examples, root_page

CONTENTS: dict[str, Callable[[], str]] = {
    "acls": acls,
    "commands": commands,
    "events": events,
    "examples": examples,
    "exit codes": exit_codes,
    "journal fields": journal_fields,
    "metrics": metrics,
}

_BLOCK = re.compile(r"^```\{(generated|root-page)\} (.+)\n```$", re.MULTILINE)


def filled(page: str) -> str:
    """Returns the page's Markdown with its blocks replaced."""
    return _BLOCK.sub(lambda block: _made(block[1], block[2]), page)


def _made(kind: str, name: str) -> str:
    return root_page(name) if kind == "root-page" else CONTENTS[name]()


def _read(_app: object, _page: str, source: list[str]) -> None:
    source[0] = filled(source[0])


def setup(app: Any) -> dict[str, Any]:
    """Registers for the sources that Sphinx reads."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
