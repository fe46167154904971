"""Sorts letters into their original order, in a temporary file if there are many."""

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import merge
from typing import Any, NamedTuple

from linear_retry.dlq.spill import Spilled

_CACHE_KIB = 32 * 1024
_CHUNK = 1_000


class Entry(NamedTuple):
    """One letter: its place in the order, its name, and its packed message.

    Within a `source`, the number of an origin partition, the order is that of `offset`, then
    `generation`. Between sources there is no order. Of several with one name and place the
    first that was added counts.
    """

    source: int
    offset: int
    generation: int
    name: str
    content: bytes
    written_ms: int = -1
    """When the letter was written."""


_COLUMNS = "source, place, generation, name, content, written_ms"


class InOrder(Spilled):
    """Takes letters as they come, and yields them in their order, each once. Use it in a `with`.

    They come nearly in order, each source by itself: so each is written after the others, and only
    its place is sorted in, near the end of its source, where the index is in memory. What exceeds
    some megabytes is in a temporary file, which the system removes however the process ends.
    """

    def __init__(self, cache_kib: int = _CACHE_KIB) -> None:
        super().__init__(
            f"CREATE TABLE entry ({_COLUMNS})",
            "CREATE UNIQUE INDEX in_order ON entry (source, place, generation, name)",
            cache_kib=cache_kib,
        )
        self._waiting: list[Entry] = []

    def __exit__(self, *_: object) -> None:
        self._waiting.clear()
        super().__exit__()

    def add(self, entry: Entry) -> None:
        """Raises `DiskFullError` where the temporary file cannot grow."""
        self._waiting.append(entry)
        if len(self._waiting) >= _CHUNK:
            self._flush()

    def __iter__(self) -> Iterator[Entry]:
        """One of each source in turn, each source in its order. Not to be added to meanwhile."""
        waiting = deque(self.of(number) for number, *_ in list(self.sources()))
        while waiting:
            source = waiting.popleft()
            entry = next(source, None)
            if entry is not None:
                yield entry
                waiting.append(source)

    def oldest_first(self, sources: int) -> Iterator[Entry]:
        """All, the earliest written first, as far as the order within each source allows."""
        # The inputs are not sorted by time: `merge` takes the oldest of what is next in each.
        return merge(*map(self.of, range(sources)), key=lambda entry: entry.written_ms)

    def of(self, source: int) -> Iterator[Entry]:
        """Those of one source, in its order."""
        return map(
            Entry._make,
            self._select(
                f"SELECT {_COLUMNS} FROM entry WHERE source = ?"
                " ORDER BY source, place, generation, name",
                source,
            ),
        )

    def sources(self) -> Iterator[tuple[int, int, int, int]]:
        """Of each source its number, how many are in it, and their lowest and highest offset."""
        return self._select(
            "SELECT source, count(*), min(place), max(place) FROM entry GROUP BY source"
        )

    def longer_than(self, size_bytes: int, source: int) -> Iterator[bytes]:
        """The contents in this source that are."""
        statement = "SELECT content FROM entry WHERE source = ? AND length(content) > ?"
        return (content for (content,) in self._select(statement, source, size_bytes))

    def _select(self, statement: str, *arguments: object) -> Iterator[Any]:
        self._flush()
        return super()._select(statement, *arguments)

    def _flush(self) -> None:
        self._write(
            f"INSERT OR IGNORE INTO entry ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", self._waiting
        )
        self._waiting.clear()


def batches(entries: Iterable[Entry], most: int, most_bytes: int) -> Iterator[list[Entry]]:
    """The same, in the same order, in batches that are no larger, one that is too large alone."""
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
