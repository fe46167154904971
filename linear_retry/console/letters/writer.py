"""Writes records of a dead-letter topic, and of its resolutions topic, to an index."""

import sqlite3
from collections.abc import Iterable, Mapping

from linear_retry.console.letters import schema
from linear_retry.console.letters.index import transaction
from linear_retry.console.letters.rows import (
    LAST_MS,
    OTHERS,
    Kind,
    earlier_place,
    kind_of,
    resolution_row,
    row_of,
)
from linear_retry.dlq.letters.letter import read_letter
from linear_retry.records.record import Record

_COLUMNS = (
    'partition, "offset", at_ms, failed_ms, name, digest, generation, kind_id, state, key, error,'
    " origin_partition, origin_offset, size_bytes, headers"
)
_RESOLVED = "SELECT state FROM resolution WHERE digest = ?6 AND generation = ?7"
# By a place alone: of what was there by then, and not of what came later, as `Resolutions` has it.
_EARLIER = "SELECT state FROM resolution WHERE digest = ?16 AND generation = ?7 AND at_ms >= ?3"
_ADD = (
    f"INSERT OR IGNORE INTO letter ({_COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8,"
    f" coalesce(?9, ({_RESOLVED}), ({_EARLIER}), 'open'), ?10, ?11, ?12, ?13, ?14, ?15)"
)
_RESOLVE = "INSERT OR REPLACE INTO resolution VALUES (?, ?, ?, ?, ?, ?)"
_REOPEN = "DELETE FROM resolution WHERE digest = ? AND generation = ?"
_CHANGE = (
    "UPDATE letter SET state = ? WHERE digest = ? AND generation = ? AND state NOT IN ('retry', ?)"
)
_CHANGE_EARLIER = (
    'UPDATE letter SET state = ?1 WHERE partition = ?2 AND "offset" = ?3'
    " AND substr(name, 1, length(?4)) = ?4 AND generation = ?5 AND at_ms <= ?6"
    " AND state NOT IN ('retry', ?1) AND NOT EXISTS (SELECT 1 FROM resolution"
    " WHERE resolution.digest = letter.digest AND resolution.generation = letter.generation)"
)
_OLDEST = 'SELECT id FROM letter WHERE partition = ? AND "offset" < ? LIMIT 5000'


class Writer:
    """The only writer of an index. After an error, use a new one."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._kinds: dict[Kind, int] = {}
        self._read_kinds()

    def add_letters(self, records: Iterable[Record]) -> None:
        """Adds the letters in `records`; one that is there already stays as it is."""
        letters = [read_letter(record) for record in records]
        rows = [row_of(letter, self._kind_id(kind_of(letter))) for letter in letters]
        self._database.executemany(_ADD, rows)

    def add_resolutions(self, records: Iterable[Record]) -> None:
        """Adds resolutions in their order, and sets the state of their letters."""
        for record in records:
            row = resolution_row(record)
            if row is None:
                continue
            identity, state = row[:2], row[2]
            if state is None:
                self._database.execute(_REOPEN, identity)
            else:
                self._database.execute(_RESOLVE, row)
            change = (state or "open", *identity, state or "open")
            self._database.execute(_CHANGE, change)
            if (place := earlier_place(record)) is not None:
                until_ms = LAST_MS if state is None else row[4]
                there = (state or "open", *place, row[1], until_ms)
                self._database.execute(_CHANGE_EARLIER, there)

    def save_positions(self, topic: str, positions: Mapping[int, int]) -> None:
        """Saves where the next start begins, in the same transaction as what was read before."""
        rows = [(topic, number, offset) for number, offset in positions.items() if offset >= 0]
        self._database.executemany("INSERT OR REPLACE INTO position VALUES (?, ?, ?)", rows)

    def forget_resolutions(self, topic: str) -> None:
        """Forgets all resolutions, to read them again from their beginning."""
        with transaction(self._database):
            self._database.execute("DELETE FROM resolution")
            self._database.execute("DELETE FROM position WHERE topic = ?", (topic,))
            self._database.execute(
                "UPDATE letter SET state = 'open' WHERE state IN ('replayed', 'resolved')"
            )

    def remove_before(self, partition: int, offset: int) -> bool:
        """Removes some letters that are no longer in the topic; False: none was left."""
        with transaction(self._database):
            removed = self._database.execute(
                f"DELETE FROM letter WHERE id IN ({_OLDEST})", (partition, offset)
            ).rowcount
        return removed > 0

    def remove_empty_kinds(self) -> None:
        """Removes the kinds that no letter is of any more."""
        with transaction(self._database):
            self._database.execute("DELETE FROM tally WHERE letters = 0")
            self._database.execute("DELETE FROM kind WHERE id NOT IN (SELECT kind_id FROM tally)")
        self._read_kinds()

    def _read_kinds(self) -> None:
        query = "SELECT id, group_id, origin, reason, error, pattern FROM kind"
        self._kinds = {Kind(*parts): number for number, *parts in self._database.execute(query)}

    def _kind_id(self, kind: Kind) -> int:
        if kind not in self._kinds and len(self._kinds) >= schema.KINDS:
            kind = kind._replace(pattern=OTHERS.pattern)
            if len(self._kinds) >= schema.KINDS + schema.KINDS_WITHOUT_MESSAGE:
                kind = OTHERS
        number = self._kinds.get(kind)
        if number is None:
            insert = "INSERT INTO kind VALUES (NULL, ?, ?, ?, ?, ?)"
            number = self._database.execute(insert, kind).lastrowid or 0
            self._kinds[kind] = number
        return number
