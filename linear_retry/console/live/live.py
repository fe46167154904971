"""The threads that keep the snapshot of what is going on now."""

from typing import Self

from linear_retry.console.live.hub import Hub
from linear_retry.console.live.journal_thread import JournalThread
from linear_retry.console.live.standing_thread import StandingThread
from linear_retry.console.outages.history import History
from linear_retry.console.state.settings import Settings
from linear_retry.journal.episodes import Circuit


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
