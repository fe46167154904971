"""Finds the open letters that a replay would leave behind newer ones of their keys."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple

from linear_retry.dlq.reading.spill import Spilled

_CHUNK = 1_000


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
        if len(self._kept) >= _CHUNK:
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
