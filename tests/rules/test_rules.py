"""Every rule of the lists can be taken away, and its test exists."""

import ast
import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

import pytest
import typer

from tests.rules.__main__ import chosen
from tests.rules.library import Library
from tests.rules.rule import PACKAGE, Rule, RuleError, listed
from tests.rules.trial import ROOT, trials

_RULES = listed()

_Removals: TypeAlias = dict[str, dict[str, str] | RuleError]

_HERE = """
[here]
law = "One is one."
source = "Peano"
test = "tests/test_one.py::test_one"
in = "one: ONE"
by = "2"
"""
_TEST = "from linear_retry.one import ONE\n\n\ndef test_one():\n    assert ONE {}\n"


@pytest.fixture(scope="module")
def removals() -> _Removals:
    """What is left without each rule."""
    library = Library(ROOT / PACKAGE)
    removals: _Removals = {}
    for rule in _RULES:
        try:
            removals[rule.name] = rule.removed_from(library)
        except RuleError as error:
            removals[rule.name] = error
    return removals


def test_each_can_be_taken_away(removals: _Removals) -> None:
    """It is in the library, once, and what is left without it is Python."""
    problems = [str(one) for one in removals.values() if isinstance(one, RuleError)]
    assert not problems, "\n".join(problems)


def test_nothing_is_left_undefined(removals: _Removals, tmp_path: Path) -> None:
    """A test that dies of a name that is not there would say nothing about the rule."""
    for name, texts in removals.items():
        for path, text in texts.items() if isinstance(texts, dict) else ():
            file = tmp_path / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache"]
    undefined = [*ruff, "--select", "F821,F823", str(tmp_path)]
    checked = subprocess.run(undefined, capture_output=True, text=True)
    assert 0 == checked.returncode, checked.stdout


def test_no_module_is_named_in_vain() -> None:
    """A rule that names the module too would have to follow where its function is moved."""
    library = Library(ROOT / PACKAGE)
    places = {edit.place for rule in _RULES for edit in rule.edits}
    unneeded = {place for place in places if 1 == len(library.paths(_in_its_room(place)))}
    assert [] == sorted(place for place in unneeded if place != _in_its_room(place))


def _in_its_room(place: str) -> str:
    where, _, name = place.partition(": ")
    return f"{where.partition('.')[0]}: {name}"


def test_each_test_is_there() -> None:
    """Under its name, as a function of its module."""
    there = {path: _functions(ROOT / path) for path in {_place(rule)[0] for rule in _RULES}}
    missing = [rule.test for rule in _RULES if _place(rule)[1] not in there[_place(rule)[0]]]
    assert [] == missing


def _place(rule: Rule) -> tuple[str, str]:
    path, _, name = rule.test.partition("::")
    return path, name


def _functions(module: Path) -> set[str]:
    tree = ast.parse(module.read_text()) if module.is_file() else ast.Module([], [])
    return {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}


@pytest.mark.parametrize(
    ("written", "instead", "message"),
    [
        ('by = "2"', 'replace = "3"\nby = "2"', "3 is 0 times in one: ONE"),
        ('by = "2"', 'replace = "1"\nby = "1"', "takes nothing away from one: ONE"),
        ('by = "2"', 'by = "yield"', "'yield' outside function"),
        ("one: ONE", "one: TWO", "there is no one: TWO"),
        ("one: ONE", "two: ONE", "there is no two: ONE"),
        ("one: ONE", "room: ONE", "is in room/a.py and room/b.py; .* as in 'room.a: "),
        ('by = "2"', 'with = "2"', "has law, source, test, in, with, and must have"),
        ('by = "2"', 'edits = [{ remove = "1" }, { by = "3", remove = "1" }]', "must have"),
        ('by = "2"', "edits = []", "must have"),
        ('law = "One is one."\n', "", "has source, test, in, by, and must have law"),
    ],
)
def test_what_is_wrong_with_a_list(
    tmp_path: Path, written: str, instead: str, message: str
) -> None:
    """The error says which rule, what is wrong and where: lists drift as the library changes."""
    (tmp_path / "room").mkdir()
    for path in ("one.py", "room/a.py", "room/b.py"):
        (tmp_path / path).write_text("ONE = 1\n")
    (tmp_path / "list.toml").write_text(_HERE.replace(written, instead))
    with pytest.raises(RuleError, match=f"here: .*{message}"):
        listed(tmp_path)[0].removed_from(Library(tmp_path))


def test_several_changes(tmp_path: Path) -> None:
    """One after the other, each in its own place or in that of the rule."""
    (tmp_path / "one.py").write_text("ONE = 1, 2\nTWO = 3\n")
    edits = 'edits = [{ remove = "1" }, { remove = "2" }, { in = "one: TWO", by = "4" }]'
    (tmp_path / "list.toml").write_text(_HERE.replace('by = "2"', edits))
    removed = listed(tmp_path)[0].removed_from(Library(tmp_path))
    assert {"one.py": "ONE = ()\nTWO = 4\n"} == removed


def test_a_name_that_is_there_twice(tmp_path: Path) -> None:
    """In two lists: one of them would never be asked for by its name."""
    for file in ("a.toml", "b.toml"):
        (tmp_path / file).write_text(_HERE)
    with pytest.raises(RuleError, match="here: there twice"):
        listed(tmp_path)


@pytest.mark.parametrize(
    ("test", "outcomes"),
    [
        ("== 1", ["killed", "survived"]),
        ("> 0", ["survived", "survived"]),
        ("== 3", ["killed", "error"]),
        ("==", ["error", "error"]),
    ],
)
def test_what_becomes_of_it(tmp_path: Path, test: str, outcomes: list[str]) -> None:
    """Killed only by a test that fails, and passes with the rule in place: one that cannot even be
    read is an error of the list. What is run is the copy without the rule, and not the library."""
    for name in (PACKAGE, "tests", "lists"):
        (tmp_path / name).mkdir()
    (tmp_path / PACKAGE / "__init__.py").touch()
    (tmp_path / PACKAGE / "one.py").write_text("ONE = 1\n")
    (tmp_path / "tests" / "test_one.py").write_text(_TEST.format(test))
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (tmp_path / "lists" / "list.toml").write_text(_HERE)
    rules = listed(tmp_path / "lists")
    ended = sorted(trials(rules, tmp_path), key=lambda trial: trial.rule is None)
    assert outcomes == [trial.outcome for trial in ended]


def test_a_name_that_is_not_there() -> None:
    """Those that are nearly so are named, and not all of some hundred."""
    with pytest.raises(typer.BadParameter, match=r"'gat' is none of the \d+ rules: such as gate"):
        chosen(["gat"])
    with pytest.raises(typer.BadParameter, match="they are in tests/rules/lists/"):
        chosen(["zzzzqq"])
