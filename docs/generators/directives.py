"""Directives whose content is made when the site is built: of the code, and of other pages."""

from collections.abc import Callable
from typing import Any, ClassVar

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from docs.generators.commands import commands, exit_codes
from docs.generators.events import events, journal_fields
from docs.generators.metrics import metrics
from docs.generators.root_pages import ROOT, examples, root_page

CONTENTS: dict[str, Callable[[], str]] = {
    "commands": commands,
    "events": events,
    "examples": examples,
    "exit codes": exit_codes,
    "journal fields": journal_fields,
    "metrics": metrics,
}


class _Made(SphinxDirective):
    """A directive that stands for Markdown."""

    required_arguments: ClassVar[int] = 1
    final_argument_whitespace: ClassVar[bool] = True

    def parsed(self, text: str) -> list[nodes.Node]:
        """The Markdown as a part of the page, headings included."""
        lines = StringList(text.splitlines(), source=f"<{self.name} {self.arguments[0]}>")
        part = nodes.section()
        part.document = self.state.document
        self.state.nested_parse(lines, 0, part, match_titles=True)
        children: list[nodes.Node] = part.children
        return children


class Generated(_Made):
    """What the code says of something: `{generated} events`."""

    def run(self) -> list[nodes.Node]:
        """Write it, and parse it."""
        return self.parsed(CONTENTS[self.arguments[0]]())


class RootPage(_Made):
    """A page from outside `docs/`, without its title: `{root-page} CHANGELOG.md`."""

    def run(self) -> list[nodes.Node]:
        """Read it, and parse it."""
        self.env.note_dependency(str(ROOT / self.arguments[0]))
        return self.parsed(root_page(self.arguments[0]))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives."""
    app.add_directive("generated", Generated)
    app.add_directive("root-page", RootPage)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
