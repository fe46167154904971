"""Replaces a client that has lost all brokers while other clients still reach them."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future

from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.settings.topics import is_pattern
from linear_retry.kafka import KafkaError
from linear_retry.kafka.consumer.client import Client

CHECK_EVERY_S = 5.0
_UNSEEN_S = 10.0


class BrokerWatchdog:
    """The watchdog for a client that has lost all brokers without reporting an error.

    After all brokers were away, they may first report a cluster without brokers. librdkafka (2.13
    and 2.16, not 2.11) then forgets every broker it knows, and has none left to ask, for ever: no
    error, no partition, no message (librdkafka #5301; 4 of 4 consumers whose broker was frozen for
    5 s, past their session). Only a new client helps. To tell this from brokers that are down,
    another client must find them.
    """

    def __init__(
        self,
        client: Client,
        assignment: Assignment,
        topics: Sequence[str],
        ask_brokers: Callable[[], Future[int]],
        report: Callable[[KafkaError], None],
        replace: Callable[[str], None],
    ) -> None:
        """`ask_brokers` returns how many brokers a new client finds from the configuration alone.

        `report` reports a problem of the client; `replace` creates a new client, for a reason.
        """
        self._client = client
        self._assignment = assignment
        self._named = next((topic for topic in topics if not is_pattern(topic)), None)
        self._ask_brokers = ask_brokers
        self._report = report
        self._replace = replace
        self.due_at_s = 0.0
        self._unseen_since_s: float | None = None
        self._found_at_s: float | None = None
        self._asked: Future[int] | None = None

    def sees(self) -> bool:
        """Whether the client knows a broker that could have told it something.

        Asks about one existing topic: all of them every few seconds would be a burden.
        """
        owned = self._assignment.partitions
        return self._client.sees_brokers(owned[0][0] if owned else self._named)

    def tick(self) -> None:
        """Checks every few seconds, and replaces a client that has lost all brokers."""
        now_s = self._assignment.now_s()
        self.due_at_s = now_s + CHECK_EVERY_S
        if self.sees():
            self._note_seen()
            return
        if self._unseen_since_s is None:
            self._unseen_since_s = now_s
        unseen_s = now_s - self._unseen_since_s
        if unseen_s >= _UNSEEN_S:
            self._compare(now_s, unseen_s)

    def _compare(self, now_s: float, unseen_s: float) -> None:
        """Replaces the client if other clients have long found brokers, and it still has not."""
        asked = self._asked
        if asked is not None and not asked.done():
            return
        self._asked = self._ask_brokers()
        if asked is None:
            return
        if asked.exception() is not None or asked.result() == 0:
            self._found_at_s = None
            text = f"no broker reachable for {unseen_s:.0f} s"
            self._report(KafkaError(KafkaError._ALL_BROKERS_DOWN, text))
        elif self._found_at_s is None:
            self._found_at_s = now_s
        elif now_s - self._found_at_s >= self._client.reconnect_within_s:
            self._note_seen()
            self._replace(f"it reached no broker for {unseen_s:.0f} s, and other clients did")

    def _note_seen(self) -> None:
        self._unseen_since_s = self._found_at_s = self._asked = None
