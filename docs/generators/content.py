"""Inserts generated content, from the code and from other pages, when the site is built.

A page requests it between two comments, `<!-- {generated} events -->` or `<!-- {root-page}
CHANGELOG.md -->`, and `<!-- end -->`. Where nobody builds the site, on a forge or in an editor, the
text between them is read: a link to the other page, or the table itself, which `python -m
docs.generators` writes. The Markdown replaces all of it before the page is parsed, as a directive's
content cannot contain headings of the page.
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

WRITTEN = ("acls", "events", "exit codes", "journal fields", "metrics")
"""Those that are short enough to stand in the pages too."""

_BLOCK = re.compile(
    r"^(<!-- \{(generated|root-page|automodule)\} ([^\n]+) -->)\n.*?^<!-- end -->$",
    re.MULTILINE | re.DOTALL,
)


def filled(page: str) -> str:
    """Returns the page's Markdown with its blocks replaced, as the site has it."""
    return _BLOCK.sub(lambda block: _made(block[2], block[3]), page)


def written(page: str) -> str:
    """Returns the page's Markdown with the tables of `WRITTEN`, as the repository has it."""
    return _BLOCK.sub(
        lambda block: (
            f"{block[1]}\n{CONTENTS[block[3]]()}\n<!-- end -->" if block[3] in WRITTEN else block[0]
        ),
        page,
    )


def _made(kind: str, name: str) -> str:
    if kind == "automodule":
        module, *options = name.split("; ")
        lines = (f".. automodule:: {module}", *(f"   :{option}" for option in options))
        return "\n".join(("```{eval-rst}", *lines, "```"))
    return root_page(name) if kind == "root-page" else CONTENTS[name]()


def _read(_app: object, _page: str, source: list[str]) -> None:
    source[0] = filled(source[0])


def setup(app: Any) -> dict[str, Any]:
    """Registers for the sources that Sphinx reads."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
