"""The threads that keep the snapshot: one follows the journal, one asks Kafka how groups stand."""

import time
from collections.abc import Mapping
from threading import Event
from typing import Any, Self

from linear_retry.console.live.hub import Hub
from linear_retry.console.live.outages import History
from linear_retry.console.state.settings import Settings
from linear_retry.journal.entry import Entry, Unreadable
from linear_retry.journal.episodes import Circuit
from linear_retry.journal.group_state import GroupStates
from linear_retry.journal.reader import JournalTail
from linear_retry.journal.standing import Lags, Liveness, Standings
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


_EVERY_S = 3.0
_KNOWN_FOR_S = 60.0


class StandingThread:
    """Whether the groups have members, and the lag of those that somebody looks at."""

    def __init__(self, hub: Hub, config: Mapping[str, Any], every_s: float = _EVERY_S) -> None:
        self._hub, self._every_s = hub, every_s
        self._standings = Standings(config)
        self._known: dict[str, tuple[float, Lags]] = {}
        """When each group's lag was asked, and the answer."""
        self._thread = Repeating("console standing", self._follow, self._note)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread. Does not wait for brokers that are away."""
        self._thread.close()

    def _note(self, trouble: str) -> None:
        self._known = {}
        self._hub.change(liveness={}, lags={}, lag_trouble=trouble)

    def _follow(self, stop: Event) -> None:
        try:
            while not stop.wait(self._every_s):
                self._ask(stop)
                self._hub.change(lag_trouble=None)
        finally:
            self._standings.keep(())

    def _ask(self, stop: Event) -> None:
        """Asks about each group once, and shows each answer as soon as it is there."""
        snapshot = self._hub.newest
        watched = self._hub.watched() if snapshot.trouble is None else frozenset()
        self._standings.keep(watched)
        self._show(watched)
        if not watched:
            self._hub.change(liveness={})
            return
        self._standings.refresh()
        liveness: dict[str, Liveness] = {
            v.group: self._standings.liveness(v) for v in snapshot.views
        }
        self._hub.change(liveness=liveness)
        for view in snapshot.views:
            # What may not be described may not be asked either, and a refusal costs the whole wait.
            asks = view.group in watched and liveness[view.group] in ("live", "no-member")
            if asks and not stop.is_set():
                self._known[view.group] = time.monotonic(), self._standings.lags(view)
                self._show(watched)

    def _show(self, watched: frozenset[str]) -> None:
        """Shows what is known of these groups; what is old would look like what is so now."""
        since_s = time.monotonic() - _KNOWN_FOR_S
        self._known = {
            group: known
            for group, known in self._known.items()
            if group in watched and known[0] > since_s
        }
        self._hub.change(lags={group: lag for group, (_, lag) in self._known.items() if lag})


class Live:
    """One reader of the journal, and one that asks how its groups stand, however many look."""

    def __init__(self, settings: Settings) -> None:
        self.hub = Hub()
        self.history = History(self._open_circuits)
        kafka, topic, since_ms = settings.kafka, settings.journal, settings.journal_since_ms
        self._journal = JournalThread(self.hub, self.history, kafka, topic, since_ms)
        self._standing = StandingThread(self.hub, kafka)

    def _open_circuits(self) -> set[Circuit]:
        views = self.hub.newest.views
        return {(view.group, each.instance, each.scope) for view in views for each in view.circuits}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hub.close()
        self._journal.close()
        self._standing.close()
