"""Builds the dead-letter producer's librdkafka keys, and refuses those that break a guarantee."""

from typing import Any

from confluent_kafka import Producer

from linear_retry.errors import ConfigurationError
from linear_retry.kafka.consumer.settings import (
    SERVERS,
    Config,
    ConsumerSettings,
    bounded_socket_timeout,
    whole_ms,
)
from linear_retry.kafka.key_check import check_keys
from linear_retry.kafka.producers.acknowledged import LARGEST_MESSAGE_BYTES

# Defaults of librdkafka 2.x (CONFIGURATION.md), used here if the user does not set them.
_RECEIVE_MAX_BYTES = 100_000_000

_WHERE = "DeadLetters config "
_ONE_TRANSACTION = (
    "with transactional=True letter and offset go in one transaction, so both are in the "
    "consumer's cluster"
)
_LONGEST_LETTER_MS = 30_000
# How long the next owner may wait for a killed owner's transaction: 60 s by default.
_LONGEST_TRANSACTION_MS = 10_000
# librdkafka's lower bound.
_SHORTEST_TRANSACTION_MS = 1_000


def producer_config(settings: ConsumerSettings, overlay: Config) -> dict[str, Any]:
    """Returns the dead-letter producer's keys: the consumer's connection, then `overlay`.

    Raises `ConfigurationError` if the wait for a dead letter could exceed a third of
    `max.poll.interval.ms`: the member would be removed from its group while it waits.
    """
    limit_ms = _longest_wait_ms(settings)
    config = _reachable_by(settings.connection, overlay)
    received_bytes = int(settings.config.get("receive.message.max.bytes", _RECEIVE_MAX_BYTES))
    config |= {
        # The default is 1 MB, whatever the consumer accepts; a letter is as large as its message.
        # A consumer may receive messages twice as large as librdkafka lets a producer send.
        "message.max.bytes": min(max(received_bytes, 1_000_000), LARGEST_MESSAGE_BYTES),
        "message.timeout.ms": max(min(_LONGEST_LETTER_MS, limit_ms), 1),
        "linger.ms": 0,
        "partitioner": "murmur2_random",
        # Else a deleted topic is recreated with the broker's defaults: one partition, and a
        # retention that nobody chose for dead letters.
        "allow.auto.create.topics": False,
    }
    config |= overlay
    config |= _guaranteed(overlay)
    timeout_ms = delivery_timeout_ms(config)
    if timeout_ms == 0 or timeout_ms > limit_ms:
        interval_ms = int(settings.max_poll_interval_s * 1000)
        raise ConfigurationError(
            f"max.poll.interval.ms={interval_ms}: it must be at least "
            f"three times the dead-letter producer's message.timeout.ms={timeout_ms}, or the "
            "member is removed from its group while it waits for a letter; lower the latter or "
            "raise the former"
        )
    check_keys(config, Producer, _WHERE)
    return config


def transactional_config(settings: ConsumerSettings, overlay: Config) -> dict[str, Any]:
    """Returns the keys of a producer that sends letter and offset in one transaction.

    Without `transactional.id`, as each producer needs its own. Raises `ConfigurationError` if a
    transaction could take longer than a third of `max.poll.interval.ms`, or a letter longer than
    its transaction; for other brokers; and for `isolation.level=read_uncommitted`.
    """
    if str(settings.config.get("isolation.level", "read_committed")) != "read_committed":
        # A partition's next owner would not wait for the last one's open transaction.
        raise ConfigurationError(
            f"isolation.level={settings.config['isolation.level']!r}: with transactional=True a "
            "partition's next owner must wait for the last one's transaction, or its letter is "
            "sent twice; leave the key out"
        )
    refuse_another_cluster(settings, overlay, _ONE_TRANSACTION)
    transaction_ms = _transaction_timeout_ms(settings, overlay)
    ours: dict[str, Any] = {"transaction.timeout.ms": transaction_ms}
    if not {"message.timeout.ms", "delivery.timeout.ms"} & overlay.keys():
        ours["message.timeout.ms"] = min(_LONGEST_LETTER_MS, transaction_ms)
    ours |= bounded_socket_timeout(settings.connection, transaction_ms)
    # Else consecutive transactions take 100 ms each.
    ours["retry.backoff.ms"] = 10
    config = producer_config(settings, ours | dict(overlay))
    if delivery_timeout_ms(config) > transaction_ms:
        raise ConfigurationError(
            f"DeadLetters config message.timeout.ms={delivery_timeout_ms(config)}: at most "
            f"transaction.timeout.ms={transaction_ms}, or its transaction would end before it"
        )
    return config


def _reachable_by(connection: Config, overlay: Config) -> dict[str, Any]:
    """Returns `connection` without its brokers if `overlay` names others.

    Both keys for brokers mean the same, and librdkafka uses the last one given.
    """
    elsewhere = any(key in overlay for key in SERVERS)
    return {k: value for k, value in connection.items() if not (elsewhere and k in SERVERS)}


def refuse_another_cluster(settings: ConsumerSettings, overlay: Config, why: str) -> None:
    """Raises `ConfigurationError` unless `overlay` has the consumer's brokers, or none."""
    for key in SERVERS:
        if key in overlay and overlay[key] != settings.connection.get(key):
            raise ConfigurationError(
                f"DeadLetters config {key}={overlay[key]!r}: {why}; leave the key out"
            )


def _transaction_timeout_ms(settings: ConsumerSettings, overlay: Config) -> int:
    limit_ms, key = _longest_wait_ms(settings), "transaction.timeout.ms"
    usual_ms = max(min(_LONGEST_TRANSACTION_MS, limit_ms), _SHORTEST_TRANSACTION_MS)
    timeout_ms = whole_ms(overlay, key, usual_ms, _WHERE)
    if not _SHORTEST_TRANSACTION_MS <= timeout_ms <= limit_ms:
        raise ConfigurationError(
            f"max.poll.interval.ms={settings.max_poll_interval_s * 1000:.0f}: it must be at least "
            f"three times the dead-letter producer's {key}={timeout_ms} (which is 1000 or more), "
            "or the member is removed from its group while it waits for a letter; lower the "
            "latter or raise the former"
        )
    return timeout_ms


def _longest_wait_ms(settings: ConsumerSettings) -> int:
    return int(settings.max_poll_interval_s * 1000) // 3


def delivery_timeout_ms(config: Config) -> int:
    """Returns the time after which this producer reports a letter as failed; 0: never."""
    key = "delivery.timeout.ms" if "delivery.timeout.ms" in config else "message.timeout.ms"
    return whole_ms(config, key, where=_WHERE)


_LOST_OR_DUPLICATED = "an acknowledged dead letter must not be lost or duplicated"
_OURS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("acks", ("all", "-1"), _LOST_OR_DUPLICATED),
    ("request.required.acks", ("all", "-1"), _LOST_OR_DUPLICATED),
    ("enable.idempotence", ("true", "t", "1"), _LOST_OR_DUPLICATED),
    ("delivery.report.only.error", ("false", "f", "0"), "no success would ever be reported"),
    (
        "transactional.id",
        (),
        "two consumers with the same one would fence each other for ever; for letter and offset "
        "in one transaction write DeadLetters(..., transactional=True), which creates one for each",
    ),
)


def _guaranteed(overlay: Config) -> dict[str, Any]:
    for key, accepted, why in _OURS:
        if key in overlay and str(overlay[key]).lower() not in accepted:
            raise ConfigurationError(
                f"DeadLetters config {key}={overlay[key]!r}: {why}; leave the key out"
            )
    acks = "request.required.acks" if "request.required.acks" in overlay else "acks"
    ours: dict[str, Any] = {acks: "all", "enable.idempotence": True}
    if "delivery.report.only.error" in overlay:
        ours["delivery.report.only.error"] = False  # confluent-kafka does not accept a text here
    return ours
