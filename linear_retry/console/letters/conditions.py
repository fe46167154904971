"""Filters of an index's letters, and their conditions in SQL."""

import json
import sqlite3
from dataclasses import dataclass
from typing import Any, TypeAlias

from linear_retry.console.letters import schema
from linear_retry.console.letters.rows import NUMBER, cut_key, digest, header_hash
from linear_retry.dlq.letters.letter import State

_FEW = 20_000
_Part: TypeAlias = tuple[str, tuple[Any, ...]]
SHORTEST_TEXT = 3
"""Characters: a shorter one is in no index, and among a million letters takes seconds."""
DONE = tuple(each for each in State if each.is_done)
"""The states of letters about which nothing is left to be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """Which letters. All criteria must match; None matches every letter.

    `error`, the exception's type, and `pattern`, its message without numbers and ids, are those of
    a group. `text` is a part of type or message, whatever the case of its ASCII letters. `origin`
    is the topic that the message came from. `not_text` and `not_origin` exclude what the same
    values of `text` and `origin` would select, `not_text` whatever the white space between words.
    `no_key` selects letters without a key, and with `key` these as well. `header` is a name without
    `=`, and a whole value. `since_ms` and `until_ms` apply to the time at which the letter was
    written, the latter exclusive. `name` is a letter's id, with all its generations.
    `states` are any of these; empty: all.
    """

    error: str | None = None
    pattern: str | None = None
    text: str | None = None
    not_text: str | None = None
    key: bytes | None = None
    no_key: bool = False
    header: tuple[str, bytes] | None = None
    group_id: str | None = None
    origin: str | None = None
    not_origin: str | None = None
    reason: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    name: str | None = None
    states: tuple[State, ...] = (State.OPEN,)

    @property
    def asks_for_content(self) -> bool:
        """Whether it would tell a viewer, who sees no keys and headers, which there are."""
        return self.key is not None or self.no_key or self.header is not None

    @property
    def of_kind(self) -> dict[str, str]:
        """The criteria that a kind of letters matches as a whole, by column."""
        names = ("error", "pattern", "group_id", "origin", "reason")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @property
    def is_of_kinds(self) -> bool:
        """Whether there is no other criterion, but for states."""
        others = (self.text, self.not_text, self.since_ms, self.until_ms, self.name)
        return not self.asks_for_content and all(value is None for value in others)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on the columns of `letter`, and its parameters."""

    sql: str
    parameters: tuple[Any, ...]

    @staticmethod
    def all_of(parts: list[_Part]) -> "Condition":
        """All of them; without any, every row."""
        sql = " AND ".join(f"({part})" for part, _ in parts) or "1"
        return Condition(sql, tuple(each for _, parameters in parts for each in parameters))


def on_kinds(wanted: LetterFilter) -> Condition:
    """Returns the condition on `kind`, and on the state of its letters."""
    return Condition.all_of(_of_kind(wanted) + _states(wanted))


def on_letters(database: sqlite3.Connection, wanted: LetterFilter) -> Condition:
    """Returns the condition on `letter`: errors and headers by their index, where that is fast."""
    parts, of_kind = _states(wanted), _of_kind(wanted)
    if wanted.not_text is not None:
        has_not = r"{} NOT LIKE ? ESCAPE '\'"
        text = (_anywhere(wanted.not_text),)
        parts.append((has_not.format("error"), text))
        # Of a whole kind its type or message tells: else each of its letters would be looked at.
        of_kind.append((has_not.format("kind.error"), text))
        if NUMBER not in wanted.not_text:
            of_kind.append((has_not.format("kind.pattern"), text))
    if of_kind:
        condition = Condition.all_of(of_kind)
        found = f"kind_id IN (SELECT id FROM kind WHERE {condition.sql})"
        parts.append((found, condition.parameters))
    for comparison, value in (("at_ms >= ?", wanted.since_ms), ("at_ms < ?", wanted.until_ms)):
        if value is not None:
            parts.append((comparison, (value,)))
    parts += _key(wanted)
    if wanted.name is not None:
        parts.append(("digest = ?", (digest(wanted.name.encode("utf-8", "replace")),)))
    if wanted.text is not None:
        parts += _text(database, wanted.text)
    if wanted.header is not None:
        parts += _header(database, header_hash(*wanted.header))
    return Condition.all_of(parts)


def _of_kind(wanted: LetterFilter) -> list[_Part]:
    parts: list[_Part] = [(f"kind.{name} = ?", (value,)) for name, value in wanted.of_kind.items()]
    if wanted.not_origin is not None:
        parts.append(("kind.origin <> ?", (wanted.not_origin,)))
    return parts


def _key(wanted: LetterFilter) -> list[_Part]:
    keys: list[bytes | None] = [None] if wanted.no_key else []
    if wanted.key is not None:
        keys.append(cut_key(wanted.key))
    return [(" OR ".join(["key IS ?"] * len(keys)), tuple(keys))] if keys else []


def _states(wanted: LetterFilter) -> list[_Part]:
    if not wanted.states:
        return []
    marks = ", ".join("?" * len(wanted.states))
    return [(f"state IN ({marks})", tuple(state.value for state in wanted.states))]


def _text(database: sqlite3.Connection, text: str) -> list[_Part]:
    is_in_error = (r"error LIKE ? ESCAPE '\'", (_anywhere(text),))
    if len(text) < SHORTEST_TEXT or not _has_trigrams(database):
        return [is_in_error]
    # Its wildcards stay: the index cannot escape them, and finds no less with them.
    found = f"SELECT rowid FROM {schema.SEARCH} WHERE error LIKE ?"
    return _where_few(database, (found, (f"%{text}%",)), is_in_error)


def _header(database: sqlite3.Connection, number: int) -> list[_Part]:
    is_there = "EXISTS (SELECT 1 FROM header WHERE hash = ? AND letter_id = id)"
    found = "SELECT letter_id FROM header WHERE hash = ?"
    return _where_few(database, (found, (number,)), (is_there, (number,)))


def _where_few(database: sqlite3.Connection, found: _Part, each: _Part) -> list[_Part]:
    """Adds to the condition on each letter the ids that were found, unless they are many.

    Of many, a page is found sooner by looking at one letter after another.
    """
    query, parameters = found
    ids = [number for (number,) in database.execute(f"{query} LIMIT ?", (*parameters, _FEW + 1))]
    if len(ids) > _FEW:
        return [each]
    return [("id IN (SELECT value FROM json_each(?))", (json.dumps(ids),)), each]


def _anywhere(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_")
    return f"%{escaped}%"


def _has_trigrams(database: sqlite3.Connection) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE name = ?"
    return database.execute(query, (schema.SEARCH,)).fetchone() is not None


@dataclass(frozen=True, slots=True)
class Selection:
    """The letters that a filter selected at a moment: those that were counted.

    Letters that come later are not among them. `epoch` is the index's: one that was built again
    gives its letters other numbers.
    """

    topic: str
    filter: LetterFilter
    count: int
    epoch: str
    last_id: int
