"""A change is named by its place in the syntax tree, and by what is there."""

import ast
from pathlib import Path
from textwrap import indent

import pytest

from tests.rules.edit import Edit, EditError
from tests.rules.library import Library

_CLASS = '''
LIMIT_S = 2.0  # of each


class Loop:
    """Calls the handler."""

    @property
    def size(self):
        return 1

    @size.setter
    def size(self, value): # as it is
        self.polls = """
        of as many
    lines"""

    def run(self):
        def inner():
            return 0
        return inner
'''


@pytest.mark.parametrize(
    ("before", "what", "by", "after"),
    [
        ("one()\ntwo()", "one()", None, "pass\ntwo()"),
        ("one()\ntwo()", "one(\n)", "if two: one()", "if two:\n one()\ntwo()"),
        ("one()\ntwo()\nthree()", "one()\ntwo()", None, "pass\nthree()"),
        ("one()\ntwo()\nthree()", "two()\nthree()", "three()\ntwo()", "one()\nthree()\ntwo()"),
        ("if a:\n one()\nelif b:\n two()", "b", "c", "if a:\n one()\nelif c:\n two()"),
        ("if a:\n one()\nelif b:\n two()", "if b: two()", None, "if a:\n one()\nelse:\n pass"),
        ("if a:\n one()\nif b:\n two()", "if a: ...", None, "pass\nif b:\n two()"),
        ("with a:\n one()\n two()", "with a: ...", "...", "one()\ntwo()"),
        ("for a in b:\n one()\n two()", "for a in b: ...", "...; ...", "one()\ntwo()\n..."),
        ("return a and (b or c)", "b", None, "return a and c"),
        ("return a and (b or c)", "a", None, "return b or c"),
        ("return a and (b or c)", "b or c", "not b", "return a and not b"),
        ("return f(a, *b, c=1)", "a", None, "return f(*b, c=1)"),
        ("return f(a, *b, c=1)", "c=1", None, "return f(a, *b)"),
        ("return f(a, *b, c=1)", "c=1", "c=2", "return f(a, *b, c=2)"),
        ("return f(a, *b, c=1)", "f(...)", "a", "return a"),
        ("return f(a, *b, c=1)", "f(..., c=...)", "a", "return a"),
        ("return f(g(a))", "g(...)", "...", "return f(a)"),
        ("return max(1, 2)", "max(..., ...)", "... + ...", "return 1 + 2"),
        ("return [a for b in c if d]", "d", None, "return [a for b in c]"),
        ("return f'{a} of {b}'", "a", "b", "return f'{b} of {b}'"),
        ("return True is 1", "1", "2", "return True is 2"),
        ("return {'a': 1, **b}", "'a': 1", None, "return {**b}"),
        ("return {'a': 1, **b}", "'a': ...", "'a': ..., 'c': 2", "return {'a': 1, 'c': 2, **b}"),
        ("with a as b, c as d:\n pass", "c as d", None, "with a as b:\n pass"),
        ("match a:\n case 1:\n  b\n case _:\n  c", "case _: c", None, "match a:\n case 1:\n  b"),
        (
            "try:\n a()\nexcept B as b:\n c()\nfinally:\n d()",
            "except B as b: ...",
            "except E as b: ...",
            "try:\n a()\nexcept E as b:\n c()\nfinally:\n d()",
        ),
        (
            "try:\n a()\nexcept B:\n c()\nfinally:\n d()",
            "except B: c()",
            None,
            "try:\n a()\nfinally:\n d()",
        ),
        ("one()\ntwo()", None, "one()", "one()"),
        ("one()\ntwo()", None, None, "pass"),
    ],
)
def test_what_is_named_is_changed(
    before: str, what: str | None, by: str | None, after: str
) -> None:
    """Statements, expressions, arguments and the like, however they are laid out."""
    changed = Edit("room: f", what, by).applied(_function(before))
    assert _dumped(_function(after)) == _dumped(changed)


@pytest.mark.parametrize(
    ("what", "by", "message"),
    [
        ("c", None, "c is 0 times in room: f, and must be there once"),
        ("a", None, "a is 2 times in room: f"),
        ("a +", None, r"a \+ is 0 times"),
        ("x", None, "x cannot be removed, but only replaced"),
        ("x", "return", "return cannot stand in place of x"),
        ("x", "x", "takes nothing away from room: f"),
    ],
)
def test_what_cannot_be_changed(what: str, by: str | None, message: str) -> None:
    """What is there twice or not at all, and what nothing can be left of."""
    with pytest.raises(EditError, match=message):
        Edit("room: f", what, by).applied(_function("return x + g(a, a)"))


@pytest.mark.parametrize(
    ("place", "what", "by", "before", "after"),
    [
        ("LIMIT_S", None, "3.0", "LIMIT_S = 2.0  # of each", "LIMIT_S = 3.0"),
        ("Loop.size", "1", "2", "        return 1", "        return 2"),
        ("Loop.run.inner", None, None, "            return 0", "            pass"),
    ],
)
def test_all_else_is_as_it_was(
    place: str, what: str | None, by: str | None, before: str, after: str
) -> None:
    """To the byte, outside of the definition that is changed."""
    changed = Edit(f"room: {place}", what, by).applied(_CLASS)
    assert _CLASS.replace(before, after) == changed


def test_a_string_of_some_lines_is_what_it_was() -> None:
    """Though it is written anew, with the method around it."""
    changed = Edit("room: Loop.size", "self.polls = ...", "self.polls = [...]").applied(_CLASS)
    assert r"        self.polls = ['\n        of as many\n    lines']" in changed


def test_a_place_is_found_in_its_room(tmp_path: Path) -> None:
    """In whichever module; one is named only where others of the room have that name too."""
    for path, text in {
        "alone.py": "def f(): ...",
        "room/a.py": "class A:\n    x: int = 1\n    def f(self): ...\nif A:\n    def g(): ...",
        "room/deep/b.py": "def f():\n    x = 1\ndef g(): ...",
        "room/deep/__init__.py": "",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    library = Library(tmp_path)
    assert ["alone.py"] == library.paths("alone: f")
    assert ["room/deep/b.py"] == library.paths("room: f")
    assert ["room/a.py"] == library.paths("room: A.f") == library.paths("room: A.x")
    assert ["room/a.py", "room/deep/b.py"] == library.paths("room: g")
    assert ["room/deep/b.py"] == library.paths("room.b: g")
    assert [] == library.paths("room: f.x") == library.paths("roo: f") == library.paths("f")


def _function(body: str) -> str:
    return f"def f():\n{indent(body, '    ')}\n"


def _dumped(text: str) -> str:
    return ast.dump(ast.parse(text))
