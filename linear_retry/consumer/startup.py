"""Is everything there that this consumer needs, before it joins its group?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future

from linear_retry.consumer.parts import Parts
from linear_retry.consumer.topic_checks import is_pattern
from linear_retry.errors import BrokerError, ConfigurationError
from linear_retry.events import RetentionTooShort
from linear_retry.kafka import KafkaException
from linear_retry.kafka.admin import Admin

_ASK_FOR_S = 1.0


def partition_counts(
    parts: Parts, timeout_s: float, stopping: Callable[[], bool]
) -> dict[str, int]:
    """Every topic that exists, with its number of partitions; empty where `stopping`.

    Asked in slices of a second, for Ctrl-C's sake. Raises `BrokerError` after `timeout_s`.
    """
    give_up_at_s = parts.clock.now_s() + timeout_s
    while not stopping():
        try:
            return parts.client.partition_counts(_ASK_FOR_S)
        except KafkaException as error:
            parts.client.poll(0)  # librdkafka tells its error callback why
            if parts.clock.now_s() >= give_up_at_s:
                servers = parts.settings.config.get(
                    "bootstrap.servers", parts.settings.config.get("metadata.broker.list")
                )
                raise BrokerError(
                    f"no broker of {servers} answered within {timeout_s:g} s ({error}); check the "
                    "address, the network and the security settings"
                ) from error
    return {}


def missing_topics(counts: dict[str, int], topics: Sequence[str]) -> None:
    """Raises `ConfigurationError` that names every topic that does not exist."""
    missing = [topic for topic in topics if not is_pattern(topic) and not counts.get(topic)]
    if missing:
        raise ConfigurationError(
            f"no such topic: {', '.join(missing)}; create it, or correct the name"
        )


class RetentionCheck:
    """Warns where the strategy waits longer than a source keeps its messages.

    Best effort: asked at the start, looked at as the loop goes on, never waited for.
    """

    def __init__(self, parts: Parts, admin: Admin, total_s: float) -> None:
        self._parts = parts
        self._admin = admin
        self._total_s = total_s
        self._asked: dict[str, Future[int]] = {}

    def ask(self, topics: Sequence[str]) -> None:
        """Nothing that a strategy of no waits could outlive: then nothing is asked."""
        if self._total_s > 0:
            named = [topic for topic in topics if not is_pattern(topic)]
            self._asked = {topic: self._admin.ask_retention_ms(topic) for topic in named}

    def look(self) -> None:
        """Emit `RetentionTooShort` for what has been answered since."""
        for topic in [name for name, answer in self._asked.items() if answer.done()]:
            answer = self._asked.pop(topic)
            if answer.exception() is None and 0 <= answer.result() < self._total_s * 1000:
                self._parts.emit(RetentionTooShort(topic, answer.result(), self._total_s))
