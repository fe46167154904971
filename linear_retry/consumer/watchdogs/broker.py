"""Does our client still see the brokers that everybody else sees?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol

from linear_retry.consumer.config.topics import is_pattern
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.state import Parts
from linear_retry.kafka import KafkaError

LOOK_EVERY_S = 5.0
_UNSEEN_S = 10.0


class Finder(Protocol):
    """Asks how many brokers a client finds that knows nothing but the configuration."""

    def ask_brokers(self) -> Future[int]: ...


class BrokerWatchdog:
    """The watchdog for a client that has lost sight of all brokers, and says nothing of it.

    Brokers that have all been away may say, once they are back, that the cluster has no broker.
    librdkafka (2.13 and 2.16, not 2.11) then forgets every one that it knows and has nobody left to
    ask, for ever: no error, no partition, no message (librdkafka #5301; 4 of 4 consumers whose
    broker stood still for 5 s, past their session). Only a new client mends that. What tells it
    from brokers that are down is another client that finds them.
    """

    def __init__(
        self,
        parts: Parts,
        finder: Finder,
        report: Callable[[KafkaError], None],
        renew: Callable[[str], None],
        topics: Sequence[str],
    ) -> None:
        """`report` says a problem of the client's; `renew` puts another in its place, and why."""
        self._parts = parts
        self._finder = finder
        self._report = report
        self._renew = renew
        self._named = next((topic for topic in topics if not is_pattern(topic)), None)
        self._look_at_s = 0.0
        self._unseen_since_s: float | None = None
        self._found_at_s: float | None = None
        self._asked: Future[int] | None = None

    def sees(self) -> bool:
        """Whether there is a broker that could have told us something."""
        return self._parts.client.sees_brokers(self._topic())

    def tick(self) -> None:
        """Every few seconds; renews the client where it has gone blind."""
        now_s = self._parts.clock.now_s()
        if now_s < self._look_at_s:
            return
        self._look_at_s = now_s + LOOK_EVERY_S
        if self.sees():
            self._see()
            return
        if self._unseen_since_s is None:
            self._unseen_since_s = now_s
        unseen_s = now_s - self._unseen_since_s
        if unseen_s >= _UNSEEN_S:
            self._look_with_other_eyes(now_s, unseen_s)

    def _topic(self) -> str | None:
        """One that is there: to ask about all of them every few seconds would be a burden."""
        owned = self._parts.assignment.partitions
        return owned[0][0] if owned else self._named

    def _look_with_other_eyes(self, now_s: float, unseen_s: float) -> None:
        """A client may be slower to connect again than another, but only by so much."""
        asked = self._asked
        if asked is not None and not asked.done():
            return
        self._asked = self._finder.ask_brokers()
        if asked is None:
            return
        if asked.exception() is not None or asked.result() == 0:
            self._found_at_s = None
            text = f"no broker in sight for {unseen_s:.0f} s"
            self._report(KafkaError(KafkaError._ALL_BROKERS_DOWN, text))
        elif self._found_at_s is None:
            self._found_at_s = now_s
        elif now_s - self._found_at_s >= self._parts.settings.reconnect_within_s:
            self._see()
            self._renew(f"the old one has seen no broker for {unseen_s:.0f} s, and others have")

    def _see(self) -> None:
        self._unseen_since_s = self._found_at_s = self._asked = None


class Reclaiming:
    """Takes partitions back that were given up here, and that nobody has taken since."""

    def __init__(self, parts: Parts, flow_control: FlowControl, brokers: BrokerWatchdog) -> None:
        self._parts = parts
        self._flow_control = flow_control
        self._brokers = brokers

    def tick(self) -> None:
        """Reclaim them, where a broker is in sight.

        That nobody has taken it from us says nothing while nobody could. And a KIP-848 member that
        is out, and begins anew with no broker there, never joins again.
        """
        reclaimable = self._parts.assignment.reclaimable(self._parts.clock.now_s())
        if reclaimable and self._brokers.sees():
            self._flow_control.reclaim(reclaimable)
