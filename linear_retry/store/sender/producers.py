"""The producers of the leases: each has a transactional id that its lease's next holder fences."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from linear_retry.kafka import Producer
from linear_retry.kafka.producers.batch_transactions import (
    TRANSACTION_TIMEOUT_MS,
    BatchTransactions,
    batch_config,
)
from linear_retry.records.record import OutgoingRecord

# Brokers refuse a batch above the topic's `max.message.bytes`: no topic has less than this, which
# is what Java's producers send.
_BATCH_BYTES = 16_384
# The topic was there a moment ago. 30 s by default, and the whole lease would wait for it.
_MISSING_AFTER_MS = 3_000
# Not the whole transaction's time: the lanes of the same lease wait for one without a leader.
_REFUSED_AFTER_MS = 10_000
# Beyond the time after which librdkafka or the broker gives a transaction up, so that it is known
# what became of it.
_ANSWER_S = 2 * TRANSACTION_TIMEOUT_MS / 1000
_HURRIED_S = 5.0
_INITIALISED_S = 10.0


class LeaseProducers:
    """One transactional producer for each lease in use.

    Each is used by one thread at a time, and different ones by several.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        id_prefix: str,
        is_stopping: Callable[[], bool],
        producer: Callable[..., Any] = Producer,
    ) -> None:
        """`id_prefix` begins the transactional ids; `is_stopping` cuts waiting short."""
        self._config, self._prefix, self._make = config, id_prefix, producer
        self._is_stopping = is_stopping
        self._ready: dict[int, BatchTransactions] = {}

    def is_ready(self, number: int) -> bool:
        return number in self._ready

    def initialise(self, number: int) -> None:
        """Fences all earlier producers of this lease. Take the lease first.

        Raises `ConfigurationError`, `BrokerError`, `FencedError`.
        """
        config = batch_config(self._config, f"{self._prefix}-{number}", _BATCH_BYTES)
        config["topic.metadata.propagation.max.ms"] = _MISSING_AFTER_MS
        config["message.timeout.ms"] = _REFUSED_AFTER_MS
        transactions = BatchTransactions(config, self._make, self._now_s)
        transactions.initialise(_INITIALISED_S)
        self._ready[number] = transactions

    def commit(self, number: int, records: Sequence[OutgoingRecord]) -> None:
        """Writes all of `records` in one transaction, or none; raises as `BatchTransactions`.

        After any error the lease must be taken again, and `initialise` decides what is open.
        """
        # With a refused record's producer, librdkafka 2.16 writes no more: brokers answer
        # OUT_OF_ORDER_SEQUENCE_NUMBER. A new one may wait 0.5 s, librdkafka's timer.
        transactions = self._ready.pop(number)
        transactions.commit(records, _ANSWER_S)
        self._ready[number] = transactions

    def keep(self, numbers: frozenset[int]) -> None:
        """Drops the producers of all other leases."""
        for number in self._ready.keys() - numbers:
            self._ready.pop(number, None)

    def _now_s(self) -> float:
        """The time, far ahead once it is to stop: what is under way then has seconds to end."""
        return time.monotonic() + (_ANSWER_S - _HURRIED_S if self._is_stopping() else 0.0)
