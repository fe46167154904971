"""The thread that keeps an index at the state of its topic."""

import sqlite3
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass, replace
from threading import Event
from typing import Any

from linear_retry.console.letters.index import Index, make_tables, transaction
from linear_retry.console.letters.writer import Writer
from linear_retry.console.state.state import StateError
from linear_retry.errors import UnknownTopicError
from linear_retry.kafka.topics.description import Topics
from linear_retry.kafka.topics.reader import TopicReader
from linear_retry.kafka.topics.tail import TopicTail
from linear_retry.log.repeating import Repeating
from linear_retry.records.dead_letter import resolutions_topic
from linear_retry.records.durations import MINUTE_MS
from linear_retry.records.topics.names import is_topic_name
from linear_retry.retry.clock import now_ms

_LOOK_EVERY_S = 10.0
_BEGIN_AGAIN_S = 3.0
_WAIT_S = 0.2
_CLOSE_S = 2.0
# A tombstone stays in a resolutions topic for an hour: an index not kept for longer may lack
# that a letter was reopened.
_AWAY_MS = 30 * MINUTE_MS


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an index is, in offsets of the topic and of its resolutions.

    `total` is None until the brokers have answered; `trouble` says what keeps it from going on.
    """

    indexed: int = 0
    total: int | None = None
    trouble: str | None = None
    trouble_since_ms: int | None = None

    @property
    def is_complete(self) -> bool:
        """Whether it had all that was in the topic a moment ago."""
        return self.total is not None and self.indexed >= self.total

    @property
    def is_current(self) -> bool:
        """Whether it is complete, and is kept so."""
        return self.is_complete and self.trouble is None


class Indexer:
    """Reads a dead-letter topic from where its index ends, and follows it, in a thread."""

    def __init__(
        self,
        index: Index,
        config: Mapping[str, Any],
        building: AbstractContextManager[Any] | None = None,
        look_every_s: float = _LOOK_EVERY_S,
    ) -> None:
        """In the `with` of `building`, which may be waited for, it reads until it has caught up."""
        self.progress = Progress()
        self._index, self._config = index, config
        self._building = building or nullcontext()
        self._letters, self._resolutions = index.topic, resolutions_topic(index.topic)
        self._look_every_s = look_every_s
        self._topics, self._reader = Topics(config), TopicReader(config)
        self._bounds: dict[str, dict[int, tuple[int, int]]] = {}
        name = f"index of {index.topic}"
        self._thread = Repeating(name, self._work, self._note, _BEGIN_AGAIN_S)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Asks the thread to end after its batch."""
        self._thread.stop()

    def close(self, timeout_s: float = _CLOSE_S) -> None:
        """Ends the thread, and waits for it."""
        self._thread.close(timeout_s)

    def _work(self, stop: Event) -> None:
        try:
            with self._index.writing() as database, ExitStack() as building:
                building.enter_context(self._building)
                self._follow(database, building, stop)
        except sqlite3.Error as error:
            self._mend(error)
            raise StateError(f"the index of {self._letters}: {error}") from error

    def _mend(self, error: sqlite3.Error) -> None:
        try:
            self._index.mend(error)
        except (OSError, sqlite3.Error) as other:
            raise StateError(f"the index of {self._letters}: {other}") from other

    def _follow(self, database: sqlite3.Connection, building: ExitStack, stop: Event) -> None:
        """Follows both topics until one of them was made again, or somebody stops it.

        Closes `building` once it has caught up, or cannot go on: others wait for its place.
        """
        writer = Writer(database)
        if stop.is_set() or self._look(database, writer):
            return
        tails = {name: self._tail(database, name) for name in (self._letters, self._resolutions)}
        with tails[self._letters].follow() as letters, tails[self._resolutions].follow() as others:
            look_at_s = time.monotonic() + self._look_every_s
            wait_s = 0.0
            while not stop.is_set():
                self._index.check()
                records, resolutions = letters.read(wait_s), others.read(0)
                with transaction(database):
                    writer.add_letters(records)
                    writer.add_resolutions(resolutions)
                    for name, tail in tails.items():
                        writer.save_positions(name, tail.positions)
                wait_s = 0.0 if records or resolutions else _WAIT_S
                self._tell(tails)
                if self.progress.is_complete or self.progress.trouble is not None:
                    building.close()
                if time.monotonic() >= look_at_s:
                    if self._look(database, writer):
                        return
                    look_at_s = time.monotonic() + self._look_every_s

    def _tail(self, database: sqlite3.Connection, name: str) -> TopicTail:
        tail = TopicTail(self._config, name, 0, look_every_s=self._look_every_s)
        query = 'SELECT partition, "offset" FROM position WHERE topic = ?'
        tail.begin_at(dict(database.execute(query, (name,)).fetchall()))
        return tail

    def _look(self, database: sqlite3.Connection, writer: Writer) -> bool:
        """Compares the index with the topics; returns whether they must be read from elsewhere."""
        ids = {name: self._id_of(name) for name in (self._letters, self._resolutions)}
        self._bounds = {name: self._bounds_of(name, ids[name]) for name in ids}
        known = {
            name: (topic_id, read_ms)
            for name, topic_id, read_ms in database.execute("SELECT * FROM topic")
        }
        is_behind = True
        if self._is_another(database, self._letters, ids, known):
            with transaction(database):
                make_tables(database)
        elif self._must_forget(database, ids, known):
            writer.forget_resolutions(self._resolutions)
        else:
            is_behind = False
            self._remove_gone(writer)
        rows = [(name, topic_id, now_ms()) for name, topic_id in ids.items()]
        database.executemany("INSERT OR REPLACE INTO topic VALUES (?, ?, ?)", rows)
        return is_behind

    def _must_forget(
        self,
        database: sqlite3.Connection,
        ids: Mapping[str, str | None],
        known: Mapping[str, tuple[str | None, int]],
    ) -> bool:
        if self._resolutions not in known:
            return False
        away_ms = now_ms() - known[self._resolutions][1]
        return away_ms > _AWAY_MS or self._is_another(database, self._resolutions, ids, known)

    def _is_another(
        self,
        database: sqlite3.Connection,
        name: str,
        ids: Mapping[str, str | None],
        known: Mapping[str, tuple[str | None, int]],
    ) -> bool:
        """Whether the topic was made again: by its id, or because it is shorter than it was."""
        if name in known and known[name][0] not in ("", ids[name]):
            return True
        query = 'SELECT partition, "offset" FROM position WHERE topic = ?'
        return any(
            offset > self._bounds[name].get(partition, (0, 0))[1]
            for partition, offset in database.execute(query, (name,))
        )

    def _id_of(self, name: str) -> str | None:
        """Returns its id, empty if there is no such topic; None: its brokers know no ids."""
        if name == self._resolutions:
            with suppress(UnknownTopicError):
                return self._topics.id_of(name) if is_topic_name(name) else ""
            return ""
        return self._topics.id_of(name)

    def _bounds_of(self, name: str, topic_id: str | None) -> dict[int, tuple[int, int]]:
        if topic_id == "":
            return {}
        return self._reader.bounds(name)

    def _remove_gone(self, writer: Writer) -> None:
        """Removes the letters that retention or a purge has removed."""
        is_any = False
        for partition, (first, _) in self._bounds[self._letters].items():
            while not self._thread.is_stopped and writer.remove_before(partition, first):
                is_any = True
        if is_any:
            writer.remove_empty_kinds()

    def _tell(self, tails: Mapping[str, TopicTail]) -> None:
        indexed = total = 0
        for name, tail in tails.items():
            positions = tail.positions
            for partition, (first, end) in self._bounds[name].items():
                total += end - first
                indexed += min(max(positions.get(partition, first), first), end) - first
        self.progress = replace(self.progress, indexed=indexed, total=total)
        trouble = tails[self._letters].trouble
        if trouble is not None or self.progress.trouble is not None:
            self._note(trouble)

    def _note(self, trouble: str | None) -> None:
        since_ms = None if trouble is None else self.progress.trouble_since_ms or now_ms()
        self.progress = replace(self.progress, trouble=trouble, trouble_since_ms=since_ms)
