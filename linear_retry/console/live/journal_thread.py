"""Follows the journal in a thread, and keeps the state of its groups."""

import time
from collections.abc import Mapping
from threading import Event
from typing import Any

from linear_retry.console.live.hub import Hub
from linear_retry.console.outages.history import History
from linear_retry.journal.entry import Entry, Unreadable
from linear_retry.journal.group_state import GroupStates
from linear_retry.journal.reader import JournalTail
from linear_retry.log.repeating import Repeating

_READ_S = 0.25
_SHOW_EVERY_S = 0.5


class JournalThread:
    """Reads a journal until it is closed; what keeps it from that is said, and tried again."""

    def __init__(
        self, hub: Hub, history: History, config: Mapping[str, Any], topic: str, since_ms: int
    ) -> None:
        self._hub, self._history = hub, history
        self._config, self._topic, self._since_ms = config, topic, since_ms
        self._thread = Repeating("console journal", self._follow, hub.troubled)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread. Does not wait for brokers that are away."""
        self._thread.close()

    def _follow(self, stop: Event) -> None:
        states = GroupStates()
        self._history.begin()
        tail = JournalTail(self._config, self._topic, since_ms=self._since_ms)
        for found in tail.backlog(lambda read, total: self._hub.change(read=read, total=total)):
            self._take(states, found)
            if stop.is_set():
                return
        self._hub.troubled(None)
        with tail.follow():
            is_new, shown_at_s = True, 0.0
            while not stop.is_set():
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
