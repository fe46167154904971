"""What users and maintainers read is in plain words."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, page

_PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in (
        "*.md",
        "docs/**/*.md",
        "docs/pictures/*.svg",
        "strategies/*",
        "examples/**/*.md",
        "benchmarks/*.md",
        "ops/*",
        "linear_retry/**/*.html",
    )
    for path in ROOT.glob(pattern)
)
_MODULES = sorted(path.relative_to(ROOT) for path in ROOT.glob("linear_retry/**/*.py"))
_OUT = re.compile(
    r"\b(anew|mend(s|ed|ing)?|(nothing|is|are) told|is (?-i:none)|thing behind|in the midst"
    r"|the dice|whoever|die[sd] again|it is tried by"
    r"|stands? still|stood still|goes on|done for|dealt with|(comes?|came) again|none stays"
    r"|fails for now|count as nothing|must bear|waited for like|anything is known|is at it"
    r"|whatever happens, except|no length of time|is no time|nobody would do|last word"
    r"|on record|of yours|there is no topic|lost sight|of its own accord|how it is tried"
    r"|only says what|flat: missed|1 dead letters|has said (so|why)|becomes? of)\b",
    re.IGNORECASE,
)
"""Words and idioms of which a reader has to guess the meaning."""


def _prose(text: str) -> str:
    """The page without its code."""
    without_blocks = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`]*`", "", without_blocks)


def _words_that_are_out(text: str) -> list[str]:
    return [found[0] for found in _OUT.finditer(re.sub(r"\s+", " ", text))]


@pytest.mark.parametrize("name", _PAGES)
def test_no_page_has_a_word_that_is_out(name: str) -> None:
    """Each is there because an engineer of the field would not use it."""
    assert [] == _words_that_are_out(_prose(page(name)))


@pytest.mark.parametrize("module", _MODULES, ids=str)
def test_no_text_of_the_code_has_a_word_that_is_out(module: Path) -> None:
    """Neither what is printed, logged and raised, nor help, docstrings and comments."""
    source = (ROOT / module).read_text("utf-8")
    assert [] == [found for text in _texts(source) for found in _words_that_are_out(text)]


def _texts(source: str) -> Iterator[str]:
    """All string literals, docstrings included, and all comments."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Constant(value=str(text)):
                yield text
    comments = [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    yield re.sub(r"\s*# ", " ", "\n".join(comments))
