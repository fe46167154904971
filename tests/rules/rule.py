"""A rule of the loop, and the library without it."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LISTS = Path(__file__).parent / "lists"
PACKAGE = "linear_retry"

_KEYS = frozenset({"law", "source", "test", "without"})


class RuleError(Exception):
    """The list says something that cannot be: the rule, what is wrong, and what would be right."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """So many lines of one file, as they are, and as they would be without the rule."""

    path: str
    """Inside the package."""
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: what it says, who found out that it is needed, and the test that dies with it."""

    name: str
    law: str
    source: str
    test: str
    hunks: tuple[Hunk, ...]

    def removed_from(self, package: Path) -> dict[str, str]:
        """The text of each file that changes where the rule is taken away, by its path.

        Raises `RuleError` where a hunk is not found exactly once, or what is left is no Python.
        """
        texts: dict[str, str] = {}
        for hunk in self.hunks:
            text = texts.get(hunk.path) or self._read(package / hunk.path)
            lines, wanted = text.splitlines(keepends=True), hunk.before.splitlines(keepends=True)
            found = [n for n in range(len(lines)) if lines[n : n + len(wanted)] == wanted]
            if len(found) != 1:
                raise RuleError(
                    f"{self.name}: these lines are {len(found)} times in {hunk.path}, and must be "
                    f"there once; correct the list, or add lines around them:\n{hunk.before}"
                )
            lines[found[0] : found[0] + len(wanted)] = [hunk.after]
            texts[hunk.path] = "".join(lines)
        for path, text in texts.items():
            self._check(path, text)
        return texts

    def _read(self, file: Path) -> str:
        try:
            return file.read_text()
        except FileNotFoundError:
            raise RuleError(f"{self.name}: there is no {file}") from None

    def _check(self, path: str, text: str) -> None:
        try:
            compile(text, path, "exec", dont_inherit=True)
        except SyntaxError as error:
            raise RuleError(f"{self.name}: without it {path} is no Python: {error}") from error


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
    if table.keys() != _KEYS:
        raise RuleError(f"{name}: has {sorted(table)}, and must have {sorted(_KEYS)}")
    hunks = tuple(_hunks(name, table["without"].splitlines()))
    return Rule(name, table["law"], table["source"], table["test"], hunks)


def _hunks(name: str, lines: list[str]) -> Iterable[Hunk]:
    """As in a unified diff, with the path in place of line numbers, which drift."""
    starts = [number for number, line in enumerate(lines) if line.startswith("@@ ")]
    if starts[:1] != [0]:
        raise RuleError(f"{name}: its first line must be @@ and a path inside {PACKAGE}/")
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        body = lines[start + 1 : end]
        odd = [line for line in body if line[:1] not in ("", " ", "-", "+")]
        if odd:
            raise RuleError(f"{name}: {odd[0]!r} begins with none of space, - and +")
        before = [line[1:] for line in body if not line.startswith("+")]
        after = [line[1:] for line in body if not line.startswith("-")]
        if before == after or not before:
            raise RuleError(f"{name}: takes nothing away from {lines[start][3:]}")
        yield Hunk(lines[start][3:], _text(before), _text(after))


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
