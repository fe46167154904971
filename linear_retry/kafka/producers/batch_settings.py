"""Which librdkafka keys does a producer of whole batches get?"""

from __future__ import annotations

from typing import Any

from linear_retry.kafka.consumer.settings import Config, connection, is_whole
from linear_retry.kafka.quiet import QUIET

TRANSACTION_TIMEOUT_MS = 30_000
"""So long readers may wait for the end of a transaction whose sender was killed."""

_LARGEST_MESSAGE_BYTES = 1_000_000_000  # librdkafka's bound: what is too large, the topic says
_BATCH_BYTES = 1_000_000  # librdkafka's default
_SOCKET_TIMEOUT_MS = 60_000


def batch_config(config: Config, transactional_id: str, batch_bytes: int | None) -> dict[str, Any]:
    """Brokers, security and compression are the user's; all else keeps the promise.

    No batch is larger than `batch_bytes`, the smallest `max.message.bytes` among the topics that
    are sent to: a broker refuses a batch, not only a message, that is larger.
    """
    socket_ms = config.get("socket.timeout.ms", _SOCKET_TIMEOUT_MS)
    ours: dict[str, Any] = {
        "transactional.id": transactional_id,
        "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
        "message.timeout.ms": TRANSACTION_TIMEOUT_MS,
        "acks": "all",
        "enable.idempotence": True,
        "message.max.bytes": _LARGEST_MESSAGE_BYTES,
        "batch.size": min(_BATCH_BYTES, batch_bytes or _BATCH_BYTES),
        "linger.ms": 5,
        # As the consumer's dead letters, and as Java's clients.
        "partitioner": "murmur2_random",
        # Else transactions back to back take 100 ms each.
        "retry.backoff.ms": 10,
        # Else a topic that was deleted comes back with the broker's defaults.
        "allow.auto.create.topics": False,
        # That all are there is said by the commit; a report for each would cost half the speed.
        "delivery.report.only.error": True,
    }
    if is_whole(socket_ms) and int(socket_ms) > TRANSACTION_TIMEOUT_MS:
        ours["socket.timeout.ms"] = TRANSACTION_TIMEOUT_MS
    compression = {key: value for key, value in config.items() if key.startswith("compression.")}
    return {**QUIET, **connection(config), **compression, **ours}
