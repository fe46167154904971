"""Follows the journal in a thread, and keeps the state of its groups."""

import time
from collections.abc import Mapping
from threading import Event, Thread
from typing import Any

from linear_retry.console.live.hub import Hub
from linear_retry.console.outages.history import History
from linear_retry.errors import LinearRetryError
from linear_retry.journal.entry import Entry, Unreadable
from linear_retry.journal.group_state import GroupStates
from linear_retry.journal.reader import JournalTail

_READ_S = 0.25
_AGAIN_S = 5.0
_END_S = 0.5
_SHOW_EVERY_S = 0.5


class JournalThread:
    """Reads a journal until it is closed; what keeps it from that is said, and tried again."""

    def __init__(
        self, hub: Hub, history: History, config: Mapping[str, Any], topic: str, since_ms: int
    ) -> None:
        self._hub, self._history = hub, history
        self._config, self._topic, self._since_ms = config, topic, since_ms
        self._stop = Event()
        self._thread = Thread(target=self._run, name="linear_retry console journal", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread. Does not wait for brokers that are away."""
        self._stop.set()
        self._thread.join(_END_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow()
            except LinearRetryError as error:
                self._hub.troubled(str(error))
                self._stop.wait(_AGAIN_S)
            except Exception as error:  # noqa: BLE001  (a page that seems live would lie)
                self._hub.troubled(f"an unexpected error: {error!r}")
                self._stop.wait(_AGAIN_S)

    def _follow(self) -> None:
        states = GroupStates()
        self._history.begin()
        tail = JournalTail(self._config, self._topic, since_ms=self._since_ms)
        for found in tail.backlog(lambda read, total: self._hub.change(read=read, total=total)):
            self._take(states, found)
            if self._stop.is_set():
                return
        self._hub.troubled(None)
        with tail.follow():
            is_new, shown_at_s = True, 0.0
            while not self._stop.is_set():
                now_s = time.monotonic()
                if is_new and now_s >= shown_at_s + _SHOW_EVERY_S:
                    self._show(states)
                    is_new, shown_at_s = False, now_s
                for found in tail.read(_READ_S):
                    self._take(states, found)
                    is_new = True
                self._hub.troubled(tail.trouble)

    def _take(self, states: GroupStates, found: Entry | Unreadable) -> None:
        if states.take(found) and isinstance(found, Entry):
            self._history.take(found)

    def _show(self, states: GroupStates) -> None:
        self._hub.change(
            views=tuple(map(states.view, states.groups)),
            is_complete=True,
            unreadable=states.unreadable,
            last_unreadable=states.trouble,
        )
