"""Asks in a thread how far those groups are behind that somebody looks at."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from threading import Event
from typing import Any, Protocol

from linear_retry.console.frame.repeating import Repeating
from linear_retry.console.live.hub import Hub
from linear_retry.errors import BrokerError
from linear_retry.journal.group_view import GroupView
from linear_retry.kafka.consumer.committed import Committed
from linear_retry.kafka.consumer.settings import connection
from linear_retry.kafka.topics.description import Topics
from linear_retry.scope import Partition

_EVERY_S = 3.0
_ANSWER_S = 3.0
_KNOWN_FOR_S = 60.0


class Client(Protocol):
    """What answers for one group, as `Committed` does."""

    def ask(self, partitions: Iterable[Partition], timeout_s: float) -> dict[Partition, int] | None:
        """Returns what the group has committed; None: no answer."""

    def close(self) -> None:
        """Closes its connections."""


class Clients:
    """A client for each group that is asked about, and of these only the latest `most`.

    librdkafka needs a key of its own for each client, of which a process has 1,024, and some
    threads: one for each group that ever was would end the console.
    """

    def __init__(self, make: Callable[[str], Client], most: int = 20) -> None:
        self._make, self._most = make, most
        self._clients: OrderedDict[str, Client] = OrderedDict()

    def of(self, group: str) -> Client:
        """Returns the group's client; closes the one that was not used for longest."""
        if group in self._clients:
            self._clients.move_to_end(group)
            return self._clients[group]
        while len(self._clients) >= self._most:
            self._clients.popitem(last=False)[1].close()
        self._clients[group] = client = self._make(group)
        return client

    def keep(self, groups: Iterable[str]) -> None:
        """Closes the clients of all other groups."""
        for group in self._clients.keys() - set(groups):
            self._clients.pop(group).close()


class LagThread:
    """The lag of groups: what they have committed, compared with the ends of their partitions.

    Not what consumers say: librdkafka's own figure is frozen while a partition is paused.
    """

    def __init__(self, hub: Hub, config: Mapping[str, Any], every_s: float = _EVERY_S) -> None:
        self._hub, self._every_s = hub, every_s
        keys = connection(config)
        self._clients = Clients(lambda group: Committed(keys, group))
        self._topics = Topics(config, _ANSWER_S)
        self._known: dict[str, tuple[float, Mapping[Partition, int]]] = {}
        """When each group's lag was asked, and the answer."""
        self._thread = Repeating("console lag", self._follow, self._note)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread. Does not wait for brokers that are away."""
        self._thread.close()

    def _note(self, trouble: str) -> None:
        self._known = {}
        self._hub.change(lags={}, lag_trouble=trouble)

    def _follow(self, stop: Event) -> None:
        try:
            while not stop.wait(self._every_s):
                self._ask(stop)
                self._hub.change(lag_trouble=None)
        finally:
            self._clients.keep(())

    def _ask(self, stop: Event) -> None:
        """Asks about each group once, and shows each answer as soon as it is there."""
        snapshot = self._hub.newest
        watched = self._hub.watched() if snapshot.trouble is None else frozenset()
        self._clients.keep(watched)
        self._show(watched)
        for view in snapshot.views:
            if view.group in watched and not stop.is_set():
                lag = self._lag(view)
                self._known[view.group] = time.monotonic(), lag
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

    def _lag(self, view: GroupView) -> Mapping[Partition, int]:
        """Returns the lag of each partition that a member has; empty if it is unknown."""
        asked = {partition for member in view.members for partition in member.partitions}
        # Before the ends: a commit in between must not make the lag negative.
        starts = self._clients.of(view.group).ask(asked, _ANSWER_S) if asked else None
        try:
            ends = self._topics.ends(starts, committed=True) if starts else {}
        except BrokerError:  # unknown, as without an answer about the group
            return {}
        return {key: max(0, end - (starts or {})[key]) for key, end in ends.items()}
