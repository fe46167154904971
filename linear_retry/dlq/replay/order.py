"""Puts letters into their original order, in a temporary file where they are many."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing
from heapq import merge
from typing import NamedTuple

from linear_retry.dlq.spill import spilling, temporary_database

_CACHE_KIB = 32 * 1024
_CHUNK = 1_000


class Entry(NamedTuple):
    """One letter: its place in the order, what it is called, and what is kept of it.

    Within a `lane`, an origin partition, the order is that of `offset`, then `generation`. Between
    lanes there is none. Of several with one name and place the first that was added counts.
    """

    lane: int
    offset: int
    generation: int
    name: str
    content: bytes
    written_ms: int = -1
    """When the letter was written."""


class InOrder:
    """Takes letters as they come, and gives them in their order, each once. To be used in a `with`.

    They come nearly in order, each lane by itself: so each is written behind the others, and only
    its place is sorted in, near the end of its lane, where the index is in memory. What is beyond
    some megabytes lies in a temporary file, which the system removes however the process ends.
    """

    def __init__(self, cache_kib: int = _CACHE_KIB) -> None:
        self._database = temporary_database(
            "CREATE TABLE entry (lane INTEGER, place INTEGER, generation INTEGER, name TEXT,"
            " content BLOB, written_ms INTEGER)",
            "CREATE UNIQUE INDEX in_order ON entry (lane, place, generation, name)",
            "BEGIN",
            cache_kib=cache_kib,
        )
        self._waiting: list[Entry] = []

    def __enter__(self) -> InOrder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Its file is gone then."""
        self._waiting.clear()
        self._database.close()

    def add(self, entry: Entry) -> None:
        """Raises `DiskFullError` where the temporary file cannot grow."""
        self._waiting.append(entry)
        if len(self._waiting) >= _CHUNK:
            self._write()

    def __iter__(self) -> Iterator[Entry]:
        """One of each lane in turn, each lane in its order. Not to be added to meanwhile."""
        waiting = deque(self.of(number) for number, *_ in list(self.lanes()))
        while waiting:
            lane = waiting.popleft()
            entry = next(lane, None)
            if entry is not None:
                yield entry
                waiting.append(lane)

    def oldest_first(self, lanes: int) -> Iterator[Entry]:
        """All, the earliest written first, as far as the order within each lane allows."""
        # The inputs are not sorted by time: `merge` takes the oldest of what is next in each.
        return merge(*map(self.of, range(lanes)), key=lambda entry: entry.written_ms)

    def of(self, lane: int) -> Iterator[Entry]:
        """Those of one lane, in its order."""
        self._write()
        with (
            spilling(),
            closing(
                self._database.execute(
                    "SELECT lane, place, generation, name, content, written_ms FROM entry"
                    " WHERE lane = ? ORDER BY lane, place, generation, name",
                    (lane,),
                )
            ) as rows,
        ):
            yield from map(Entry._make, rows)

    def lanes(self) -> Iterator[tuple[int, int, int, int]]:
        """Of each lane its number, how many are in it, and their lowest and highest offset."""
        self._write()
        with (
            spilling(),
            closing(
                self._database.execute(
                    "SELECT lane, count(*), min(place), max(place) FROM entry GROUP BY lane"
                )
            ) as rows,
        ):
            yield from rows

    def longer_than(self, size_bytes: int, lane: int) -> Iterator[bytes]:
        """The contents in this lane that are."""
        self._write()
        with (
            spilling(),
            closing(
                self._database.execute(
                    "SELECT content FROM entry WHERE lane = ? AND length(content) > ?",
                    (lane, size_bytes),
                )
            ) as rows,
        ):
            yield from (content for (content,) in rows)

    def _write(self) -> None:
        with spilling():
            self._database.executemany(
                "INSERT OR IGNORE INTO entry (lane, place, generation, name, content, written_ms)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                self._waiting,
            )
        self._waiting.clear()


def together(entries: Iterable[Entry], most: int, most_bytes: int) -> Iterator[list[Entry]]:
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
