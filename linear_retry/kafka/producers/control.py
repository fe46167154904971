"""How does an operator's command get onto the control topic?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from linear_retry.errors import BrokerError, ConfigurationError, UnknownTopicError
from linear_retry.kafka.consumer.settings import connection
from linear_retry.kafka.producers.journal import Record
from linear_retry.kafka.quiet import QUIET
from linear_retry.kafka.topics.standalone_consumer import PATIENCE_S, text_of

_MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)


def send(
    config: Mapping[str, Any],
    topic: str,
    record: Record,
    patience_s: float = PATIENCE_S,
    producer: Callable[..., Any] = Producer,
) -> None:
    """Write one record, and return once it is acknowledged. `config` are librdkafka's keys.

    Raises `UnknownTopicError` where there is no such topic (none is made), `BrokerError` where it
    is refused, or not acknowledged within `patience_s`: it may be there then all the same.
    """
    keys = QUIET | connection(config) | _ours(patience_s)
    outcome: list[KafkaError | None] = []
    try:
        handle = producer(keys)
        handle.produce(
            topic,
            record.value,
            record.key,
            timestamp=record.at_ms,
            on_delivery=lambda error, _: outcome.append(error),
        )
    except (KafkaException, ValueError, TypeError) as error:
        raise ConfigurationError(
            f"librdkafka refuses the configuration: {text_of(error)}; correct the key it names"
        ) from error
    handle.flush(patience_s + 1)
    where = str(keys.get("bootstrap.servers") or keys.get("metadata.broker.list"))
    refusal = outcome[0] if outcome else KafkaError(KafkaError._TIMED_OUT)
    if refusal is not None and refusal.code() in _MISSING:
        raise UnknownTopicError(f"{where}: there is no topic {topic!r}; check its name")
    if refusal is not None:
        raise BrokerError(
            f"{where}: topic {topic!r} has not acknowledged it: {refusal.str()}; check the address "
            "and the permission to WRITE, and look at what has happened before you send it again"
        )


def _ours(patience_s: float) -> dict[str, Any]:
    return {
        "acks": "all",
        "linger.ms": 0,
        # One command is one record; its id would tell two apart all the same.
        "enable.idempotence": True,
        "message.timeout.ms": int(patience_s * 1000),
        "allow.auto.create.topics": False,
        "partitioner": "murmur2_random",
    }
