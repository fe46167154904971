"""The outages of the last days, from the journal."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from threading import Lock

from linear_retry.journal.entry import Entry
from linear_retry.journal.episodes import Circuit, Episodes
from linear_retry.journal.outages import Outage, group_episodes


@dataclass(frozen=True, slots=True)
class Known:
    """The outages, the earliest first, and a sentence for each reason why some may be missing."""

    outages: list[Outage]
    troubles: tuple[str, ...]


class History:
    """Collects what the one reader of the journal reads; any thread may ask for the outages."""

    def __init__(self, open_now: Callable[[], Collection[Circuit]]) -> None:
        """`open_now` returns the circuits that are open, as the state of their group says."""
        self._open_now = open_now
        self._lock = Lock()
        self._episodes = Episodes()

    def begin(self) -> None:
        """Forgets all, before the journal is read from its beginning once more."""
        with self._lock:
            self._episodes = Episodes()

    def take(self, entry: Entry) -> None:
        """Adds an entry of the journal; each must come once."""
        with self._lock:
            self._episodes.take(entry)

    def since(self, since_ms: int) -> Known:
        """Returns the outages that lasted until then or longer."""
        open_now = self._open_now()
        with self._lock:
            journal = self._episodes.since(since_ms, open_now)
            is_full = self._episodes.is_full
        troubles = ["Of the journal, only the latest 20,000 episodes are kept."] if is_full else []
        return Known(group_episodes(journal), tuple(troubles))
