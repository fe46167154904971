"""What users read is in plain words."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, page

_PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in (
        "*.md",
        "docs/**/*.md",
        "strategies/*.md",
        "examples/**/*.md",
        "benchmarks/*.md",
    )
    for path in ROOT.glob(pattern)
)
_MODULES = sorted(path.relative_to(ROOT) for path in ROOT.glob("linear_retry/**/*.py"))
_OUT = re.compile(
    r"\b(anew|mend(s|ed|ing)?|(nothing|is|are) told|is (?-i:none)|thing behind|in the midst"
    r"|the dice|whoever|die[sd] again|it is tried by)\b",
    re.IGNORECASE,
)
"""Words and idioms of which a reader has to guess the meaning."""


def _prose(text: str) -> str:
    """The page without its code."""
    without_blocks = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`]*`", "", without_blocks)


@pytest.mark.parametrize("name", _PAGES)
def test_no_page_has_a_word_that_is_out(name: str) -> None:
    """Each is there because an engineer of the field would not use it."""
    assert [] == [found[0] for found in _OUT.finditer(_prose(page(name)))]


@pytest.mark.parametrize("module", _MODULES, ids=str)
def test_no_text_of_the_code_has_a_word_that_is_out(module: Path) -> None:
    """Nor has what is printed, logged and raised, nor the help and the reference."""
    tree = ast.parse((ROOT / module).read_text("utf-8"))
    assert [] == [found[0] for text in _texts(tree) for found in _OUT.finditer(text)]


def _texts(tree: ast.Module) -> Iterator[str]:
    """All string literals but the docstrings of what is private."""
    private = {id(node) for node in _private_docstrings(tree)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in private:
                yield text


def _private_docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                if not node.name.startswith("_"):
                    continue
                for inner in ast.walk(node):
                    match inner:
                        case (
                            ast.FunctionDef(body=[ast.Expr(value=ast.Constant() as text), *_])
                            | ast.ClassDef(body=[ast.Expr(value=ast.Constant() as text), *_])
                        ):
                            yield text
