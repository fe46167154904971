"""VERSIONING.md names what the packages export."""

import ast
import importlib
from typing import get_args

import pytest

from linear_retry import Event, events
from linear_retry.cli.output.exit_codes import MEANINGS
from tests.docs.markdown import ROOT, blocks, code, page, table

_PAGE = page("VERSIONING.md")
_MODULES = {code(row[0])[0]: code(row[1]) for row in table(_PAGE, "module")}
_PAGES = [
    page(str(path.relative_to(ROOT))) for path in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"))
]


@pytest.mark.parametrize("module", sorted(_MODULES.keys() - {"linear_retry.events"}))
def test_every_export_is_covered(module: str) -> None:
    """Each name of a public module's `__all__`, in its order, and no other."""
    assert importlib.import_module(module).__all__ == _MODULES[module]


def test_the_module_of_events_exports_them() -> None:
    """The events of the union, and the names beside them."""
    public = {
        name
        for name, value in vars(events).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == events.__name__
    }
    assert {event.__name__ for event in get_args(Event)} == public
    assert [] == [name for name in _MODULES[events.__name__] if not hasattr(events, name)]


def test_the_pages_import_only_what_is_public() -> None:
    """An example imports no private module, and no private name of a public one."""
    private = [
        f"{node.module}.{alias.name}"
        for text in _PAGES
        for block in blocks(text, "python")
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("linear_retry")
        for alias in node.names
        if node.module not in _MODULES or alias.name not in _MODULES[node.module]
    ]
    assert [] == [name for name in private if f"linear_retry.{name.split('.')[-1]}" not in _MODULES]


def test_the_exit_codes_are_those_of_the_commands() -> None:
    """Each with its meaning."""
    assert {str(code): text for code, text in MEANINGS.items()} == dict(table(_PAGE, "exit code"))
