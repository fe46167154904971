"""Asks Kafka in a thread how the groups stand, while somebody looks at them."""

import time
from collections.abc import Mapping
from threading import Event
from typing import Any

from linear_retry.console.live.hub import Hub
from linear_retry.journal.standing import Lags, Liveness, Standings
from linear_retry.log.repeating import Repeating

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
