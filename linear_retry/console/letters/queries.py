"""What an index answers: figures, groups of errors, pages of letters, and selections."""

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from linear_retry.console.letters.conditions import (
    Condition,
    LetterFilter,
    Selection,
    on_kinds,
    on_letters,
)
from linear_retry.console.letters.index import Index
from linear_retry.console.letters.rows import cut, cut_key, digest, earlier_digest
from linear_retry.dlq.letters.letter import Filter, Letter, State
from linear_retry.dlq.reading.resolutions import Resolution
from linear_retry.dlq.reading.spill import SpilledSet
from linear_retry.errors import LinearRetryError

COUNTED = 10_000
OLDER_COUNTED = 1_000
_GROUPS = 100
_NAMED = 1_000
_KEYS_AT_ONCE = 1_000


class StaleSelectionError(LinearRetryError):
    """The index was built again since the letters were counted."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A topic's letters in figures."""

    states: Mapping[State, int]
    oldest_open_ms: int | None
    """When the oldest open letter was written."""


@dataclass(frozen=True, slots=True)
class Group:
    """The letters of one error: `pattern` is its message with `#` for numbers and ids."""

    error: str
    pattern: str
    letters: int
    first_ms: int
    last_ms: int


class Place(NamedTuple):
    """Where a page ends: the next one begins behind it."""

    at_ms: int
    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedLetter:
    """A letter without value and headers; texts and key are cut."""

    id: int
    partition: int
    offset: int
    at_ms: int
    failed_ms: int
    name: str
    generation: int
    state: State
    key: bytes | None
    error: str
    size_bytes: int
    group_id: str
    origin: str
    reason: str
    origin_partition: int | None
    origin_offset: int | None

    @property
    def place(self) -> Place:
        return Place(self.at_ms, self.id)


_LISTED = (
    *("letter.id", "partition", '"offset"', "at_ms", "failed_ms", "name", "generation", "state"),
    *("key", "letter.error", "size_bytes", "group_id", "origin", "reason", "origin_partition"),
    "origin_offset",
)
_NAMES = [column.rpartition(".")[2].strip('"') for column in _LISTED]
_OLDEST = "SELECT min(at_ms) FROM letter WHERE kind_id = tally.kind_id AND state = 'open'"


@dataclass(frozen=True, slots=True)
class Search:
    """A filter whose text was looked up, for several questions: that takes most of their time."""

    filter: LetterFilter
    condition: Condition


def search(index: Index, wanted: LetterFilter) -> Search:
    """Looks the filter's text up."""
    with index.reading() as database:
        return Search(wanted, on_letters(database, wanted))


def summary(index: Index) -> Summary:
    """Reads the counts, and the age of the oldest open letter."""
    with index.reading() as database:
        counts = database.execute("SELECT state, sum(letters) FROM tally GROUP BY state").fetchall()
        (oldest,) = database.execute(
            f"SELECT min(({_OLDEST})) FROM tally WHERE state = 'open' AND letters > 0"
        ).fetchone()
    return Summary({State(state): number for state, number in counts if number}, oldest)


def groups(index: Index, wanted: Search, *, limit: int = _GROUPS) -> list[Group]:
    """Reads the errors of the selected letters, the most frequent first.

    Unless whole groups are selected, only the latest `COUNTED` letters are counted.
    """
    with index.reading() as database:
        condition = wanted.condition
        if wanted.filter.is_of_kinds:
            condition = on_kinds(wanted.filter)
            ends = "(SELECT {}(at_ms) FROM letter WHERE kind_id = kind.id AND state = tally.state)"
            of_kinds = (
                f"SELECT kind.error, pattern, letters, {ends.format('min')} AS first_ms,"
                f" {ends.format('max')} AS last_ms FROM kind JOIN tally ON kind_id = kind.id"
                f" WHERE letters > 0 AND {condition.sql}"
            )
        else:
            latest = (
                f"SELECT kind_id, at_ms FROM letter WHERE {condition.sql}"
                f" ORDER BY at_ms DESC, id DESC LIMIT {COUNTED}"
            )
            of_kinds = (
                "SELECT kind.error, pattern, count(*) AS letters, min(at_ms) AS first_ms,"
                f" max(at_ms) AS last_ms FROM ({latest}) JOIN kind ON kind.id = kind_id"
                " GROUP BY kind_id"
            )
        rows = database.execute(
            "SELECT error, pattern, sum(letters), min(first_ms), max(last_ms)"
            f" FROM ({of_kinds}) GROUP BY error, pattern ORDER BY 3 DESC, 5 DESC LIMIT ?",
            (*condition.parameters, limit),
        )
        return [Group(*row) for row in rows]


def names(index: Index, column: str) -> list[str]:
    """Reads the different values of `group_id`, `origin` or `reason`, for a choice of them."""
    with index.reading() as database:
        query = f"SELECT DISTINCT {column} FROM kind WHERE {column} > '' ORDER BY 1 LIMIT ?"
        return [value for (value,) in database.execute(query, (_NAMED,))]


def page(
    index: Index, wanted: Search, *, limit: int, after: Place | None = None
) -> list[ListedLetter]:
    """Reads letters, the latest first; with `after`, those behind that place."""
    condition = wanted.condition
    with index.reading() as database:
        behind = "" if after is None else " AND (at_ms, id) < (?, ?)"
        # The places first: sorting whole letters would read all of them.
        places = (
            f"SELECT id FROM letter WHERE {condition.sql}{behind}"
            " ORDER BY at_ms DESC, id DESC LIMIT ?"
        )
        rows = database.execute(
            f"SELECT {', '.join(_LISTED)} FROM letter JOIN kind ON kind.id = kind_id"
            f" WHERE letter.id IN ({places}) ORDER BY at_ms DESC, letter.id DESC",
            (*condition.parameters, *(after or ()), limit),
        )
        return [_listed(row) for row in rows]


def _listed(row: tuple[object, ...]) -> ListedLetter:
    parts = dict(zip(_NAMES, row, strict=True))
    parts["state"] = State(str(parts["state"]))
    return ListedLetter(**parts)  # type: ignore[arg-type]  # as the columns are


def count(index: Index, wanted: Search, *, limit: int = COUNTED) -> int:
    """Counts the selected letters: all, if whole groups are selected, else up to `limit` + 1."""
    with index.reading() as database:
        if wanted.filter.is_of_kinds:
            return _of_kinds(database, wanted.filter)
        condition = wanted.condition
        query = f"SELECT count(*) FROM (SELECT 1 FROM letter WHERE {condition.sql} LIMIT ?)"
        found = database.execute(query, (*condition.parameters, limit + 1)).fetchone()
        return int(found[0])


def _of_kinds(database: sqlite3.Connection, wanted: LetterFilter) -> int:
    condition = on_kinds(wanted)
    query = (
        "SELECT coalesce(sum(letters), 0) FROM kind JOIN tally ON kind_id = kind.id"
        f" WHERE {condition.sql}"
    )
    return int(database.execute(query, condition.parameters).fetchone()[0])


def selected(index: Index, wanted: LetterFilter) -> Selection:
    """Counts the selected letters, and remembers which they were; at a million it takes seconds."""
    with index.reading() as database:
        condition = on_letters(database, wanted)
        number, last = database.execute(
            f"SELECT count(*), coalesce(max(id), 0) FROM letter WHERE {condition.sql}",
            condition.parameters,
        ).fetchone()
        return Selection(index.topic, wanted, number, _epoch(database), last)


def keys(index: Index, selection: Selection) -> Iterator[str]:
    """The resolution keys of the selected letters: of those that were counted, and still match.

    A letter whose id is longer than the index keeps has none here. Raises `StaleSelectionError`.
    """
    with index.reading() as database:
        _check(database, selection)
        condition = on_letters(database, selection.filter)
        found = database.execute(
            f"SELECT name, generation FROM letter WHERE id <= ? AND {condition.sql}",
            (selection.last_id, *condition.parameters),
        )
        while some := found.fetchmany(_KEYS_AT_ONCE):
            yield from (f"{name}#{generation}" for name, generation in some)


def check(index: Index, selection: Selection) -> None:
    """Raises `StaleSelectionError` if the index was built again since the letters were counted."""
    with index.reading() as database:
        _check(database, selection)


def _check(database: sqlite3.Connection, selection: Selection) -> None:
    if _epoch(database) != selection.epoch:
        raise StaleSelectionError(
            f"{selection.topic}: the index was built again since these letters were counted; "
            "select them once more"
        )


def older_open(index: Index, letter: Letter) -> int:
    """Counts, up to `OLDER_COUNTED`, the open letters of the same key whose messages come before.

    0 if the letter has no key, or its place in the source topic is unknown.
    """
    origin = letter.origin
    if letter.key is None or origin is None or origin.offset is None:
        return 0
    older = (
        "SELECT 1 FROM letter JOIN kind ON kind.id = kind_id WHERE key = ? AND state = 'open'"
        " AND origin = ? AND origin_partition = ? AND origin_offset < ? LIMIT ?"
    )
    place = (cut_key(letter.key), cut(origin.topic), origin.partition, origin.offset)
    with index.reading() as database:
        query = f"SELECT count(*) FROM ({older})"
        return int(database.execute(query, (*place, OLDER_COUNTED)).fetchone()[0])


def resolution(index: Index, letter: Letter) -> Resolution | None:
    """Reads how a letter was resolved; None if it was not, as far as is indexed."""
    own, earlier = digest(letter.id.encode("utf-8", "replace")), earlier_digest(letter)
    with index.reading() as database:
        row = database.execute(
            "SELECT state, by, at_ms, why FROM resolution WHERE generation = ?2 AND digest IN"
            " (?1, ?3) AND (digest = ?1 OR at_ms >= ?4) ORDER BY digest = ?1 DESC LIMIT 1",
            (own, letter.generation, earlier, letter.timestamp_ms),
        ).fetchone()
    return None if row is None or row[0] is None else Resolution(State(row[0]), *row[1:])


def _epoch(database: sqlite3.Connection) -> str:
    return str(database.execute("SELECT epoch FROM about").fetchone()[0])


def filter_of(index: Index, selection: Selection) -> Filter:
    """Selects the letters that were counted, and no other.

    Matching raises `StaleSelectionError` if the index was built again since.
    """
    return Filter(states=selection.filter.states, chosen=_Chosen(index, selection))


class _Chosen:
    """Resolution keys, read once, on first use: by the thread that then asks for each letter."""

    def __init__(self, index: Index, selection: Selection) -> None:
        self._index, self._selection = index, selection
        self._keys: SpilledSet | None = None

    def __contains__(self, key: object) -> bool:
        if self._keys is None:
            self._keys = SpilledSet()
            for each in keys(self._index, self._selection):
                self._keys.add(each)
        return key in self._keys
