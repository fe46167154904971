"""The original order of letters: sorts them by it, and counts those that would be left behind."""

from collections import deque
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from heapq import merge
from typing import Any, NamedTuple

from linear_retry.dlq.reading.spill import Spilled

_CACHE_KIB = 32 * 1024
_CHUNK = 1_000

_NAMED = "source, place, generation, name"
_COLUMNS = f"{_NAMED}, content, written_ms, digest"
_AT_ONCE = 1_000


class Entry(NamedTuple):
    """One letter: its place in the order, its name, and its packed message.

    Within a `source`, the number of an origin partition, entries are ordered by `offset`, then
    `generation`. Sources are not ordered among each other. Of several with the same name, place and
    digest, the first that was added counts.
    """

    source: int
    offset: int
    generation: int
    name: str
    content: bytes
    written_ms: int = -1
    """When the letter was written."""
    digest: str = ""
    """That of the message's key and value."""


class InOrder(Spilled):
    """Takes letters in any order, and yields them sorted, each once. Use it in a `with`.

    Within each source they arrive nearly in order. So each is appended, and only its place is
    inserted into the index, near the end of its source, which is in memory. What exceeds some
    megabytes is in a temporary file, which the system removes however the process ends.
    """

    def __init__(self, cache_kib: int = _CACHE_KIB) -> None:
        super().__init__(
            f"CREATE TABLE entry ({_COLUMNS})",
            f"CREATE UNIQUE INDEX in_order ON entry ({_NAMED}, digest)",
            cache_kib=cache_kib,
        )
        self._waiting: list[Entry] = []

    def __exit__(self, *_: object) -> None:
        self._waiting.clear()
        super().__exit__()

    def add(self, entry: Entry) -> None:
        """Adds an entry. Raises `DiskFullError` if the temporary file cannot grow."""
        self._waiting.append(entry)
        if len(self._waiting) >= _CHUNK:
            self._flush()

    def __iter__(self) -> Iterator[Entry]:
        """Yields one of each source in turn, each source in order. Do not add any meanwhile."""
        waiting = deque(self.of(number) for number, *_ in list(self.sources()))
        while waiting:
            source = waiting.popleft()
            entry = next(source, None)
            if entry is not None:
                yield entry
                waiting.append(source)

    def oldest_first(self, sources: int) -> Iterator[Entry]:
        """Yields all, the earliest written first, as far as the order of each source allows."""
        # The inputs are not sorted by time: `merge` takes the oldest among the next of each.
        return merge(*map(self.of, range(sources)), key=lambda entry: entry.written_ms)

    def of(self, source: int) -> Iterator[Entry]:
        """Yields those of one source, in order."""
        return map(
            Entry._make,
            self._select(
                f"SELECT {_COLUMNS} FROM entry WHERE source = ? ORDER BY {_NAMED}, digest",
                source,
            ),
        )

    def remove_ambiguous(self) -> int:
        """Removes those of one name that are of different messages; returns their number.

        Once one of them is recorded as sent, the others would count as sent too.
        """
        groups = f"SELECT {_NAMED} FROM entry GROUP BY {_NAMED} HAVING count(*) > 1"
        found = self._select(f"SELECT e.rowid FROM entry e JOIN ({groups}) USING ({_NAMED})")
        rows = list(found)
        self._write("DELETE FROM entry WHERE rowid = ?", rows)
        return len(rows)

    def sources(self) -> Iterator[tuple[int, int, int, int]]:
        """Yields each source's number, count of entries, and lowest and highest offset."""
        return self._select(
            "SELECT source, count(*), min(place), max(place) FROM entry GROUP BY source"
        )

    def longer_than(self, size_bytes: int, source: int) -> Iterator[bytes]:
        """Yields the contents in this source that are longer."""
        statement = "SELECT content FROM entry WHERE source = ? AND length(content) > ?"
        return (content for (content,) in self._select(statement, source, size_bytes))

    def _select(self, statement: str, *arguments: object) -> Iterator[Any]:
        self._flush()
        return super()._select(statement, *arguments)

    def _flush(self) -> None:
        self._write(
            f"INSERT OR IGNORE INTO entry ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", self._waiting
        )
        self._waiting.clear()


def batches(entries: Iterable[Entry], most: int, most_bytes: int) -> Iterator[list[Entry]]:
    """Groups entries into batches within these limits; one that exceeds them is a batch alone."""
    batch: list[Entry] = []
    size_bytes = 0
    for entry in entries:
        if batch and (len(batch) >= most or size_bytes + len(entry.content) > most_bytes):
            yield batch
            batch, size_bytes = [], 0
        batch.append(entry)
        size_bytes += len(entry.content)
    if batch:
        yield batch


class Placed(NamedTuple):
    """A letter's key, and its place in the order of its source."""

    source: object
    key: bytes | None
    place: int


class Earlier(Spilled):
    """Notes the letters that stay open, to compare them with those that are sent.

    Key by key: messages without a key have no order to keep. Use it in a `with`; what exceeds some
    megabytes is in a temporary file. All methods raise `DiskFullError`.
    """

    def __init__(self) -> None:
        super().__init__(
            "CREATE TABLE kept (source, key, place)",
            "CREATE TABLE sent (source, key, last, PRIMARY KEY (source, key)) WITHOUT ROWID",
        )
        self._numbers: dict[object, int] = {}
        self._kept: list[Placed] = []

    def keep(self, letter: Placed) -> None:
        """Notes that it stays open."""
        self._kept.append(letter)
        if len(self._kept) >= _AT_ONCE:
            self._flush()

    def count(self, sent: Iterable[Placed]) -> int:
        """Counts those that stay open although a later one of the same key is sent."""
        self._flush()
        if not self._numbers:
            return 0
        self._write(
            "INSERT INTO sent VALUES (?, ?, ?)"
            " ON CONFLICT DO UPDATE SET last = max(last, excluded.last)",
            self._rows(sent),
        )
        query = "SELECT count(*) FROM kept JOIN sent USING (source, key) WHERE place < last"
        return int(self._first(query)[0])

    def _flush(self) -> None:
        self._write("INSERT INTO kept VALUES (?, ?, ?)", self._rows(self._kept))
        self._kept.clear()

    def _rows(self, letters: Iterable[Placed]) -> Iterator[tuple[int, bytes, int]]:
        for source, key, place in letters:
            if key is not None:
                number = self._numbers.setdefault(source, len(self._numbers))
                yield number, blake2b(key, digest_size=16).digest(), place
