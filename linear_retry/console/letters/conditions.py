"""Filters as conditions in SQL."""

import json
import sqlite3
from dataclasses import dataclass
from typing import Any

from linear_retry.console.letters import schema
from linear_retry.console.letters.filters import SHORTEST_TEXT, LetterFilter
from linear_retry.console.letters.rows import cut_key, digest

_FEW = 20_000


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on the columns of `letter`, and its parameters."""

    sql: str
    parameters: tuple[Any, ...]

    @staticmethod
    def all_of(parts: list[tuple[str, tuple[Any, ...]]]) -> "Condition":
        """All of them; without any, every row."""
        sql = " AND ".join(f"({part})" for part, _ in parts) or "1"
        return Condition(sql, tuple(each for _, parameters in parts for each in parameters))


def on_kinds(wanted: LetterFilter) -> Condition:
    """Returns the condition on `kind`, and on the state of its letters."""
    parts: list[tuple[str, tuple[Any, ...]]] = [
        (f"kind.{name} = ?", (value,)) for name, value in wanted.of_kind.items()
    ]
    return Condition.all_of(parts + _states(wanted))


def on_letters(database: sqlite3.Connection, wanted: LetterFilter) -> Condition:
    """Returns the condition on `letter`: the search in errors by its index, where that is fast."""
    parts = _states(wanted)
    if wanted.of_kind:
        of_kind = Condition.all_of([(f"{k} = ?", (v,)) for k, v in wanted.of_kind.items()])
        parts.append((f"kind_id IN (SELECT id FROM kind WHERE {of_kind.sql})", of_kind.parameters))
    for comparison, value in (("at_ms >= ?", wanted.since_ms), ("at_ms < ?", wanted.until_ms)):
        if value is not None:
            parts.append((comparison, (value,)))
    if wanted.key is not None:
        parts.append(("key = ?", (cut_key(wanted.key),)))
    if wanted.name is not None:
        parts.append(("digest = ?", (digest(wanted.name.encode("utf-8", "replace")),)))
    if wanted.text is not None:
        parts += _text(database, wanted.text)
    return Condition.all_of(parts)


def _states(wanted: LetterFilter) -> list[tuple[str, tuple[Any, ...]]]:
    if not wanted.states:
        return []
    marks = ", ".join("?" * len(wanted.states))
    return [(f"state IN ({marks})", tuple(state.value for state in wanted.states))]


def _text(database: sqlite3.Connection, text: str) -> list[tuple[str, tuple[Any, ...]]]:
    escaped = text.replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_")
    is_in_error = (r"error LIKE ? ESCAPE '\'", (f"%{escaped}%",))
    if len(text) < SHORTEST_TEXT or not _has_trigrams(database):
        return [is_in_error]
    # Its wildcards stay: the index cannot escape them, and finds no less with them.
    found = f"SELECT rowid FROM {schema.SEARCH} WHERE error LIKE ? LIMIT ?"
    ids = [number for (number,) in database.execute(found, (f"%{text}%", _FEW + 1))]
    if len(ids) > _FEW:  # a page of them is found sooner by looking at one letter after another
        return [is_in_error]
    return [("id IN (SELECT value FROM json_each(?))", (json.dumps(ids),)), is_in_error]


def _has_trigrams(database: sqlite3.Connection) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE name = ?"
    return database.execute(query, (schema.SEARCH,)).fetchone() is not None
