"""Builds the direct producer's librdkafka keys, and refuses those that break a guarantee."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Producer

from linear_retry.errors import ConfigurationError
from linear_retry.kafka.consumer.settings import Config, servers_of, whole_ms
from linear_retry.kafka.key_check import check_keys
from linear_retry.kafka.quiet import QUIET

_WHERE = "Outbox config "
_TIMEOUTS = ("message.timeout.ms", "delivery.timeout.ms")
_TIMEOUT_MS = 10_000
# Defaults of librdkafka 2.x (CONFIGURATION.md).
_LARGEST_BYTES = 1_000_000
_QUEUE = 100_000
_TRUE, _FALSE = ("true", "t", "1"), ("false", "f", "0")
_LOST = "an acknowledged message must not be lost, nor overtake another"
_ELSEWHERE = "a message that was stored would go to another partition than its predecessors"
_OURS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("acks", ("all", "-1"), _LOST),
    ("request.required.acks", ("all", "-1"), _LOST),
    ("enable.idempotence", _TRUE, _LOST),
    ("enable.gapless.guarantee", _TRUE, _LOST),
    ("delivery.report.only.error", _FALSE, "no success would ever be reported"),
    ("partitioner", ("murmur2_random", "murmur2"), _ELSEWHERE),
    ("error_cb", (), "an error reaches the message's on_delivery, recover or the log"),
    ("transactional.id", (), "the outbox sends each message by itself"),
)


@dataclass(frozen=True, slots=True)
class DirectSettings:
    """The producer's keys, and the limits that the outbox itself has to keep."""

    config: Mapping[str, Any]
    timeout_s: float
    """The longest that a message waits for its acknowledgement."""
    largest_bytes: int
    queue_messages: int


def direct_settings(config: Config) -> DirectSettings:
    """Returns the keys of the direct producer: the user's, then those of the guarantees.

    Raises `ConfigurationError` for missing brokers, and for a key that is refused.
    """
    if not isinstance(config, Mapping) or servers_of(config) == "None":
        raise ConfigurationError(
            f"{_WHERE}bootstrap.servers is missing: set it to HOST:PORT of a broker"
        )
    for key, accepted, why in _OURS:
        if key in config and str(config[key]).strip().lower() not in accepted:
            raise ConfigurationError(f"{_WHERE}{key}={config[key]!r}: {why}; leave the key out")
    timeout_ms = _timeout_ms(config)
    ours = {**QUIET, "partitioner": "murmur2_random", "linger.ms": 5}
    ours |= {key: value for key, value in config.items() if key not in _TIMEOUTS}
    # With a time limit of its own librdkafka would give up a message, and send what follows it.
    ours |= {"message.timeout.ms": 0, "enable.idempotence": True, "enable.gapless.guarantee": True}
    ours |= {"delivery.report.only.error": False}
    check_keys(ours, Producer, _WHERE)
    return DirectSettings(
        config=ours,
        timeout_s=timeout_ms / 1000,
        largest_bytes=int(config.get("message.max.bytes", _LARGEST_BYTES)),
        queue_messages=int(config.get("queue.buffering.max.messages", _QUEUE)) or _QUEUE,
    )


def _timeout_ms(config: Config) -> int:
    key = next((key for key in _TIMEOUTS if key in config), _TIMEOUTS[0])
    timeout_ms = whole_ms(config, key, _TIMEOUT_MS, _WHERE)
    if timeout_ms == 0:
        raise ConfigurationError(
            f"{_WHERE}{key}=0: no message would ever be stored; set the milliseconds that one may "
            "wait for its acknowledgement"
        )
    return timeout_ms
