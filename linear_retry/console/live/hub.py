"""The newest snapshot of all groups, and those who wait for the next."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Lock
from types import MappingProxyType
from typing import Any

from linear_retry.journal.group_state import GroupView
from linear_retry.journal.standing import Lags, Liveness
from linear_retry.retry.clock import now_ms


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why something cannot be read, and since when, in UTC milliseconds."""

    text: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The groups of a journal. Each change makes a new one, with the next version.

    `is_complete` says whether the journal was read to its end once; until then `read` of `total`
    entries were. `liveness` is Kafka's answer about each group; a group is missing as long as it
    was not asked. `lags` has the lags of each group; a group is missing as long as they are
    unknown. `lag_trouble` says what keeps the lag of all groups from being asked.
    """

    version: int = 0
    views: tuple[GroupView, ...] = ()
    is_complete: bool = False
    read: int = 0
    total: int = 0
    trouble: Trouble | None = None
    unreadable: int = 0
    last_unreadable: str = ""
    liveness: Mapping[str, Liveness] = field(default_factory=lambda: MappingProxyType({}))
    lags: Mapping[str, Lags] = field(default_factory=lambda: MappingProxyType({}))
    lag_trouble: str | None = None

    def view(self, group: str) -> GroupView | None:
        """Returns the group; None if the journal has nothing about it."""
        return next((view for view in self.views if view.group == group), None)


_LOOKS_FOR_S = 30.0


class Hub:
    """The newest snapshot, for any thread; the streams of pages wait for the next one."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._lock = Lock()
        self._clock_s = clock_s
        self._snapshot = Snapshot()
        self._looked_at_s: dict[str, float] = {}
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self.is_closed = False

    @property
    def newest(self) -> Snapshot:
        """The newest snapshot."""
        return self._snapshot

    def look(self, groups: Iterable[str]) -> None:
        """Notes that somebody looks at these groups."""
        now_s = self._clock_s()
        with self._lock:
            self._looked_at_s |= dict.fromkeys(groups, now_s)

    def watched(self) -> frozenset[str]:
        """Returns the groups that somebody has looked at lately: only of these more is asked."""
        now_s = self._clock_s()
        with self._lock:
            recent = {
                g: at_s for g, at_s in self._looked_at_s.items() if now_s - at_s < _LOOKS_FOR_S
            }
            self._looked_at_s = recent
            return frozenset(recent)

    def change(self, **fields: Any) -> None:
        """Makes the next snapshot, unless all these fields are as they were."""
        with self._lock:
            known = self._snapshot
            if self.is_closed or all(getattr(known, name) == to for name, to in fields.items()):
                return
            self._snapshot = replace(known, version=known.version + 1, **fields)
            self._wake()

    def troubled(self, text: str | None) -> None:
        """Says why nothing can be read, or with None that it can be."""
        known = self._snapshot.trouble
        if text is None or known is None:
            self.change(trouble=None if text is None else Trouble(text, now_ms()))
        else:
            self.change(trouble=Trouble(text, known.since_ms))

    def close(self) -> None:
        """Ends the streams: else a server would wait for them."""
        with self._lock:
            self.is_closed = True
            self._wake()

    async def changed(self, version: int, within_s: float) -> None:
        """Waits until there is another version than this one."""
        waiter = asyncio.get_running_loop(), asyncio.Event()
        with self._lock:
            if self.is_closed or self._snapshot.version != version:
                return
            self._waiting.add(waiter)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(waiter[1].wait(), within_s)
        finally:
            with self._lock:
                self._waiting.discard(waiter)

    def _wake(self) -> None:
        for loop, event in self._waiting:
            # A loop that has ended has nobody left who waits.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(event.set)
