"""The outages of the last days, from the journal and from the lake."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from linear_retry.journal.entry import Entry
from linear_retry.journal.episodes import Circuit, Episode, Episodes
from linear_retry.journal.outages import Outage, group_episodes

if TYPE_CHECKING:
    from linear_retry.console.outages.lake import LakeEpisodes


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

    def since(self, since_ms: int, lake: LakeEpisodes | None = None) -> Known:
        """Returns the outages that lasted until then or longer; older ones are in the lake."""
        open_now = self._open_now()
        with self._lock:
            journal = self._episodes.since(since_ms, open_now)
            is_full = self._episodes.is_full
        older = [] if lake is None else lake.since(since_ms)
        troubles = ["Of the journal, only the latest 20,000 episodes are kept."] if is_full else []
        if lake is not None and lake.trouble is not None:
            troubles.append(lake.trouble)
        return Known(joined(journal, older), tuple(troubles))


def joined(journal: Iterable[Episode], lake: Iterable[Episode] = ()) -> list[Outage]:
    """Returns the outages of both, the earliest first.

    What is in both is one episode, as the journal has it: it knows how it went on.
    """
    known = {_name(each): each for each in (*lake, *journal)}
    return group_episodes(known.values())


def _name(each: Episode) -> tuple[object, ...]:
    return (*each.circuit, each.sequence)
