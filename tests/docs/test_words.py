"""The pages are in plain words."""

import re

import pytest

from tests.docs.markdown import ROOT, page

_PAGES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md"))
_OUT = re.compile(
    r"\b(anew|mend(s|ed|ing)?|(nothing|is|are) told|is (?-i:none)|thing behind|in the midst|garbled"
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
