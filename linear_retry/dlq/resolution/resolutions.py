"""What is recorded of the letters that are dealt with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from linear_retry.dlq.letters.letter import Letter, State
from linear_retry.dlq.spill import spilling, temporary_database
from linear_retry.records.record import Record

_VERSION = 1
_IN_MEMORY = 20_000
_CACHE_KIB = 16 * 1024


@dataclass(frozen=True, slots=True)
class Resolution:
    """What became of a letter: `state` is `replayed` or `resolved`. To reopen is a tombstone."""

    state: State
    by: str
    at_ms: int
    why: str = ""
    replay_id: str | None = None


def encoded(resolution: Resolution) -> bytes:
    """The value of its record; the key is `Letter.resolution_key`."""
    said: dict[str, Any] = {
        "v": _VERSION,
        "state": resolution.state.value,
        "by": resolution.by,
        "at_ms": resolution.at_ms,
        "why": resolution.why,
    }
    if resolution.replay_id is not None:
        said["replay_id"] = resolution.replay_id
    return json.dumps(said).encode()


def decoded(content: bytes) -> Resolution | None:
    """The inverse of `encoded`; None for what is no resolution. Never raises."""
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        return None
    match said:
        case {"v": 1, "state": "replayed" | "resolved" as state, "by": str(by), "at_ms": int(at)}:
            why, replay_id = said.get("why", ""), said.get("replay_id")
            if isinstance(why, str) and isinstance(replay_id, str | None):
                return Resolution(State(state), by, at, why, replay_id)
    return None


class Resolutions:
    """What is recorded of the letters of one topic. To be used in a `with`.

    What is beyond some thousands lies in a temporary file, so that memory stays bounded.
    """

    def __init__(self, in_memory: int = _IN_MEMORY) -> None:
        self._recent: dict[bytes, bytes | None] = {}
        self._in_memory = in_memory
        self._store: _Store | None = None
        self.read_to: dict[int, int] = {}
        """Of each partition the offset after the last record that was taken in."""
        self.garbled: int = 0
        """How many records could not be read: they count as not there."""

    def __enter__(self) -> Resolutions:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Nothing is known any more; its file is gone."""
        if self._store is not None:
            self._store.close()
            self._store = None
        self._recent.clear()
        self.read_to.clear()

    def learn(self, records: Iterable[Record]) -> None:
        """Take in records of the resolutions topic; of one key, in their order."""
        for record in records:
            self.read_to[record.partition] = record.offset + 1
            if record.key is None:
                self.garbled += 1
                continue
            value = record.value
            if value is not None and decoded(value) is None:
                # Not taken for a tombstone: a letter that was replayed would be sent once more.
                self.garbled += 1
                continue
            self._recent[record.key] = value
        if len(self._recent) > self._in_memory:
            self._spill()

    def of(self, letter: Letter) -> Resolution | None:
        """What became of `letter`; None where nothing is recorded, or it was reopened."""
        value = self._value(letter.resolution_key.encode())
        return None if value is None else decoded(value)

    def state_of(self, letter: Letter) -> State:
        """As `of`, the state alone."""
        if not self._recent and self._store is None:
            return State.OPEN
        resolution = self.of(letter)
        return State.OPEN if resolution is None else resolution.state

    def has(self, resolution_key: str) -> bool:
        """Whether the letter with this key is dealt with."""
        return self._value(resolution_key.encode("utf-8", "replace")) is not None

    def resolution_keys(self) -> Iterator[str]:
        """The resolution keys of all letters that are dealt with. Not to be added to meanwhile."""
        if self._store is None:
            yield from (_text(key) for key, value in self._recent.items() if value is not None)
            return
        self._spill()
        yield from map(_text, self._store.all_keys())

    def _value(self, key: bytes) -> bytes | None:
        if key in self._recent or self._store is None:
            return self._recent.get(key)
        return self._store.get(key)

    def _spill(self) -> None:
        if self._store is None:
            self._store = _Store()
        self._store.put(self._recent)
        self._recent.clear()


class _Store:
    """Keys and values in SQLite's own temporary file, which the system removes in any case."""

    def __init__(self) -> None:
        self._database = temporary_database(
            "CREATE TABLE resolution (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID",
            cache_kib=_CACHE_KIB,
        )

    def put(self, values: dict[bytes, bytes | None]) -> None:
        with spilling():
            self._database.execute("BEGIN")
            self._database.executemany(
                "INSERT OR REPLACE INTO resolution VALUES (?, ?)", values.items()
            )
            self._database.execute("COMMIT")

    def get(self, key: bytes) -> bytes | None:
        with closing(
            self._database.execute("SELECT value FROM resolution WHERE key = ?", (key,))
        ) as found:
            row = found.fetchone()
        return None if row is None else row[0]

    def all_keys(self) -> Iterator[bytes]:
        found = self._database.execute("SELECT key FROM resolution WHERE value IS NOT NULL")
        with closing(found):
            for (key,) in found:
                yield key

    def close(self) -> None:
        self._database.close()


def _text(key: bytes) -> str:
    # What is no UTF-8 is no key of ours.
    return key.decode("utf-8", "replace")
