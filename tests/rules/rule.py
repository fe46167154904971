"""A rule of the loop, and the library without it.

A list says of each rule what is taken away, as code, whose layout and line do not matter:

    in = "consumer: Loop.run"          the function, class, field or constant, and its room, which
                                       is the first folder of its path; with the name of its module
                                       ("consumer.loop: ...") where others of the room have it too
    remove = "self.commit(message)"    statements, an argument, an entry of a dictionary, an operand
                                       of `and` or the like; without it, the whole body
    replace = "a and b"                any of these, or another expression or clause
    by = "a"                           what is there instead; without `replace`, instead of the
                                       whole body, or of a constant's value

What is named is in its place once. `...` is any expression, body or number of arguments, and the
same again in `by`: `replace = "with lock: ..."`, `by = "..."`. Several changes are a list of
tables, `edits = [{ remove = "a" }, { in = "retry: b", by = "return 1" }]`.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.rules.edit import Edit, EditError
from tests.rules.library import Library

LISTS = Path(__file__).parent / "lists"
PACKAGE = "linear_retry"

_KEYS = {"law", "source", "test"}
_EDITS = ({"in"}, {"in", "by"}, {"in", "remove"}, {"in", "replace", "by"})


class RuleError(Exception):
    """The list says something that cannot be: the rule, what is wrong, and what would be right."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: what it says, who found out that it is needed, and the test that dies with it."""

    name: str
    law: str
    source: str
    test: str
    edits: tuple[Edit, ...]

    def removed_from(self, library: Library) -> dict[str, str]:
        """The text of each file that changes where the rule is taken away, by its path.

        Raises `RuleError` where what is taken away is not there exactly once, or what is left is
        no Python.
        """
        texts: dict[str, str] = {}
        for edit in self.edits:
            path = self._path(library, edit.place)
            try:
                texts[path] = edit.applied(texts.get(path) or library.texts[path])
                compile(texts[path], path, "exec", dont_inherit=True)
            except EditError as error:
                raise RuleError(f"{self.name}: {error}") from error
            except SyntaxError as error:
                raise RuleError(f"{self.name}: without it {path} is no Python: {error}") from error
        return texts

    def _path(self, library: Library, place: str) -> str:
        paths = library.paths(place)
        if not paths:
            raise RuleError(
                f"{self.name}: there is no {place}; correct the list, as where it was renamed or "
                "went to another room"
            )
        if len(paths) > 1:
            one = Path(paths[0])
            raise RuleError(
                f"{self.name}: {place} is in {' and '.join(paths)}; say in which, as in "
                f"'{one.parts[0]}.{one.stem}: ...'"
            )
        return paths[0]


def listed(directory: Path = LISTS) -> list[Rule]:
    """All rules, list by list. Raises `RuleError`."""
    rules = [rule for file in sorted(directory.glob("*.toml")) for rule in _read(file)]
    names = [rule.name for rule in rules]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RuleError(f"{', '.join(twice)}: there twice; a rule has one name of its own")
    return rules


def _read(file: Path) -> list[Rule]:
    tables = tomllib.loads(file.read_text())
    return [_rule(name, table) for name, table in tables.items()]


def _rule(name: str, table: dict[str, Any]) -> Rule:
    shared = {key: table[key] for key in table.keys() - _KEYS - {"edits"}}
    edits = [shared | edit for edit in table.get("edits", [{}])]
    if not _KEYS <= table.keys() or not edits or any(edit.keys() not in _EDITS for edit in edits):
        raise RuleError(
            f"{name}: has {', '.join(table)}, and must have law, source, test, in, and one of "
            "remove, by, or replace and by, or none of them; or a list of such as edits"
        )
    changes = (
        Edit(one["in"], one.get("remove", one.get("replace")), one.get("by")) for one in edits
    )
    return Rule(name, table["law"], table["source"], table["test"], tuple(changes))
