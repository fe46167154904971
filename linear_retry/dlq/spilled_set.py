"""Is a text one of those that were named, however many these are?"""

from __future__ import annotations

from contextlib import closing

from linear_retry.dlq.spill import room, scratch


class Names:
    """A set of texts, in a temporary file where it is large. To be used in a `with`."""

    def __init__(self) -> None:
        self._database = scratch("CREATE TABLE name (name TEXT PRIMARY KEY) WITHOUT ROWID", "BEGIN")

    def __enter__(self) -> Names:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def add(self, name: str) -> None:
        with room():
            self._database.execute("INSERT OR IGNORE INTO name VALUES (?)", (name,))

    def __contains__(self, name: object) -> bool:
        found = self._database.execute("SELECT 1 FROM name WHERE name = ?", (name,))
        with closing(found):
            return found.fetchone() is not None
