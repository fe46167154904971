"""Asks in a thread how far each group is behind, while somebody looks."""

from collections.abc import Mapping
from contextlib import ExitStack
from threading import Event, Thread
from typing import Any

from linear_retry.console.live.hub import Hub
from linear_retry.errors import BrokerError
from linear_retry.journal.group_view import GroupView
from linear_retry.kafka.consumer.committed import Committed
from linear_retry.kafka.consumer.settings import connection
from linear_retry.kafka.topics.description import Topics
from linear_retry.scope import Partition

_EVERY_S = 3.0
_ANSWER_S = 3.0
_END_S = 0.5


class LagThread:
    """The lag of all groups: what they have committed, compared with the ends of their partitions.

    Not what consumers say: librdkafka's own figure is frozen while a partition is paused.
    """

    def __init__(self, hub: Hub, config: Mapping[str, Any]) -> None:
        self._hub = hub
        self._config = connection(config)
        self._topics = Topics(config, _ANSWER_S)
        self._stop = Event()
        self._thread = Thread(target=self._run, name="linear_retry console lag", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread. Does not wait for brokers that are away."""
        self._stop.set()
        self._thread.join(_END_S)

    def _run(self) -> None:
        with ExitStack() as ends:
            clients: dict[str, Committed] = {}
            while not self._stop.wait(_EVERY_S):
                snapshot = self._hub.newest
                if not self._hub.is_watched or snapshot.trouble is not None:
                    continue
                for view in snapshot.views:
                    if view.group not in clients:
                        clients[view.group] = client = Committed(self._config, view.group)
                        ends.callback(client.close)
                lags = {view.group: self._lag(clients[view.group], view) for view in snapshot.views}
                self._hub.change(lags={group: lag for group, lag in lags.items() if lag})

    def _lag(self, client: Committed, view: GroupView) -> Mapping[Partition, int]:
        """Returns the lag of each partition that a member has; empty if it is unknown."""
        asked = {partition for member in view.members for partition in member.partitions}
        # Before the ends: a commit in between must not make the lag negative.
        starts = client.ask(asked, _ANSWER_S) if asked and not self._stop.is_set() else None
        try:
            ends = self._topics.ends(starts, committed=True) if starts else {}
        except BrokerError:  # unknown, as without an answer about the group
            return {}
        return {key: max(0, end - (starts or {})[key]) for key, end in ends.items()}
