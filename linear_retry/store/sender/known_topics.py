"""Looks up the topics that messages go to, before they are sent."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from linear_retry.errors import BrokerError
from linear_retry.kafka import KafkaException, Producer
from linear_retry.kafka.producers.acknowledged import AcknowledgedProducer, control_config
from linear_retry.kafka.quiet import text_of

_KEPT_S = 30.0
_MISSING_KEPT_S = 1.0
_ANSWER_S = 5.0


class KnownTopics:
    """The numbers of partitions of topics, each asked for again after some time.

    librdkafka reports that a topic is missing only seconds after a message was handed over, and
    that fails the whole transaction.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        producer: Callable[..., Any] = Producer,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises `ConfigurationError` if librdkafka refuses a key."""
        self._producer = AcknowledgedProducer("", control_config(config, _ANSWER_S), producer)
        self._producer.check()
        self._now_s = now_s
        self._known: dict[str, tuple[int | None, float]] = {}

    def cluster_id(self) -> str:
        """Returns the id of the cluster. Raises `BrokerError` if no broker answers."""
        try:
            return self._producer.cluster_id(_ANSWER_S)
        except KafkaException as error:
            raise BrokerError(f"no broker answers: {text_of(error)}") from error

    def partitions(self, topic: str) -> int | None:
        """Returns the topic's number of partitions; None: missing, or may not be described.

        Raises `BrokerError` if no broker answers.
        """
        number, until_s = self._known.get(topic, (None, -1.0))
        now_s = self._now_s()
        if now_s < until_s:
            return number
        try:
            number = self._producer.partitions(topic, _ANSWER_S)
        except KafkaException as error:
            self.forget(topic)
            raise BrokerError(f"topic {topic!r}: no broker answers: {text_of(error)}") from error
        kept_s = _MISSING_KEPT_S if number is None else _KEPT_S
        self._known[topic] = number, now_s + kept_s
        return number

    def forget(self, topic: str) -> None:
        """Asks for it again the next time."""
        self._known.pop(topic, None)
