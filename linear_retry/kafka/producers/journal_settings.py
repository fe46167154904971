"""Which librdkafka keys does the journal's producer get, and which are refused?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Producer

from linear_retry.errors import ConfigurationError
from linear_retry.kafka.consumer.settings import Config
from linear_retry.kafka.key_check import check_keys

_TOPIC_NAME = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
_REFUSED = {
    "transactional.id": "nobody would begin a transaction",
    "delivery.report.only.error": "what is written would be kept in memory for ever",
}
_DEFAULTS: dict[str, Any] = {
    # These bound the memory while nobody takes what is written.
    "queue.buffering.max.messages": 1_000,
    "queue.buffering.max.kbytes": 4_096,
    # The restart of a broker is waited out; what waits for longer is dropped, and counted.
    "message.timeout.ms": 60_000,
    # A killed member's last entries are out by then.
    "linger.ms": 5,
    # One request after another: what is sent again is in order. Idempotence would do as well, but
    # its producers can fail for good.
    "max.in.flight.requests.per.connection": 1,
    "partitioner": "murmur2_random",
    # Else a topic that is missing would be made with a retention that nobody chose.
    "allow.auto.create.topics": False,
}


def is_topic_name(topic: object) -> bool:
    """Whether a broker takes it for the name of a topic."""
    return isinstance(topic, str) and _TOPIC_NAME.fullmatch(topic) is not None


def check_topic_name(topic: object, what: str = "Journal topic") -> None:
    """Raises `ConfigurationError`. `what` is how the caller names it."""
    if not is_topic_name(topic):
        raise ConfigurationError(
            f"{what}={topic!r}: the name of a topic, of at most 249 letters, digits, dots, "
            "underscores and hyphens"
        )


def check_overlay(overlay: Config) -> None:
    """Raises `ConfigurationError` for a key that a journal, or librdkafka, cannot live with."""
    if not isinstance(overlay, Mapping):
        raise ConfigurationError(f"Journal config={overlay!r}: a mapping of librdkafka's keys")
    for key, why in _REFUSED.items():
        if key in overlay:
            raise ConfigurationError(
                f"Journal config {key}={overlay[key]!r}: {why}; leave the key out"
            )
    check_keys(overlay, Producer, "Journal config ")


def journal_config(connection: Config, overlay: Config) -> dict[str, Any]:
    """The journal producer's keys: the consumer's brokers and security, then `overlay`."""
    return {**connection, **_DEFAULTS, **overlay}
