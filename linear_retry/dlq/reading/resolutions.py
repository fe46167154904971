"""The resolutions of letters that are replayed or resolved."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from linear_retry.dlq.letters.letter import Letter, State
from linear_retry.dlq.reading.spill import Spilled
from linear_retry.records.record import Record
from linear_retry.retry.clock import now_ms

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Resolution:
    """The resolution of a letter: `state` is `replayed` or `resolved`. Reopening is a tombstone."""

    state: State
    by: str
    at_ms: int = field(default_factory=now_ms)
    why: str = ""
    replay_id: str | None = None


def encoded(resolution: Resolution) -> bytes:
    """The value of its record; the key is `Letter.resolution_key`."""
    content: dict[str, Any] = {
        "v": _VERSION,
        "state": resolution.state.value,
        "by": resolution.by,
        "at_ms": resolution.at_ms,
        "why": resolution.why,
    }
    if resolution.replay_id is not None:
        content["replay_id"] = resolution.replay_id
    return json.dumps(content).encode()


def decoded(value: bytes) -> Resolution | None:
    """The inverse of `encoded`; None for anything that is not a resolution. Never raises."""
    try:
        content = json.loads(value)
    except (ValueError, RecursionError):
        return None
    match content:
        case {"v": 1, "state": "replayed" | "resolved" as state, "by": str(by), "at_ms": int(at)}:
            why, replay_id = content.get("why", ""), content.get("replay_id")
            if isinstance(why, str) and isinstance(replay_id, str | None):
                return Resolution(State(state), by, at, why, replay_id)
    return None


class Resolutions(Spilled):
    """The resolutions of the letters of one topic, in a temporary file if there are many.

    Use it in a `with`.
    """

    def __init__(self) -> None:
        super().__init__("CREATE TABLE resolution (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
        self.next_offsets: dict[int, int] = {}
        """The offset after the last record added, by partition."""

    def clear(self) -> None:
        """Forgets everything."""
        self._database.execute("DELETE FROM resolution")
        self.next_offsets.clear()

    def add(self, records: Iterable[Record]) -> None:
        """Adds records of the resolutions topic; those with one key, in order."""
        self._write("INSERT OR REPLACE INTO resolution VALUES (?, ?)", self._readable(records))

    def of(self, letter: Letter) -> Resolution | None:
        """The resolution of `letter`; None if none is recorded, or it was reopened."""
        value = self._value(letter.resolution_key)
        if value is not None:
            return decoded(value)
        value = None if letter.earlier_key is None else self._value(letter.earlier_key)
        earlier = None if value is None else decoded(value)
        # By a place alone: of what was there by then, and not of what came later.
        return earlier if earlier is not None and letter.timestamp_ms <= earlier.at_ms else None

    def state_of(self, letter: Letter) -> State:
        """The state of `letter`, from the same record."""
        if letter.is_retry:
            return State.RETRY
        if not self.next_offsets:
            return State.OPEN
        resolution = self.of(letter)
        return State.OPEN if resolution is None else resolution.state

    def has(self, resolution_key: str) -> bool:
        """Whether the letter with this key is replayed or resolved."""
        return self._value(resolution_key) is not None

    def resolution_keys(self) -> Iterator[str]:
        """The resolution keys of all replayed and resolved letters. Do not add any meanwhile."""
        for (key,) in self._select("SELECT key FROM resolution WHERE value IS NOT NULL"):
            yield key.decode("utf-8", "replace")  # a key that is not UTF-8 is not ours

    def _readable(self, records: Iterable[Record]) -> Iterator[tuple[bytes, bytes | None]]:
        for record in records:
            self.next_offsets[record.partition] = record.offset + 1
            value = record.value
            # A garbled record is not a tombstone: a replayed letter would be sent again.
            if record.key is None or (value is not None and decoded(value) is None):
                continue
            yield record.key, value

    def _value(self, key: str) -> bytes | None:
        row = self._first(
            "SELECT value FROM resolution WHERE key = ?", key.encode("utf-8", "replace")
        )
        return None if row is None else row[0]
