"""Whole batches of records in transactions: all are in their topics, or none."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from linear_retry.errors import BrokerError, FencedError
from linear_retry.kafka.consumer.settings import Config, bounded_socket_timeout, connection
from linear_retry.kafka.producers.transactional import (
    Broken,
    Completed,
    Refused,
    Step,
    TransactionalProducer,
    Unfinished,
)
from linear_retry.kafka.quiet import QUIET
from linear_retry.records.record import OutgoingRecord

TRANSACTION_TIMEOUT_MS = 30_000
"""So long readers may wait for the end of a transaction whose sender was killed."""

_LARGEST_MESSAGE_BYTES = 1_000_000_000  # librdkafka's bound: what is too large, the topic says
_BATCH_BYTES = 1_000_000  # librdkafka's default
_SLICE_S = 0.5  # Ctrl-C is heard between two calls into librdkafka, not inside one
_ABORT_S = 2.0
_ROOM_S = 0.1
_FENCED = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
)
# The transaction has failed already: its commit says why.
_BROKEN_OFF = frozenset({KafkaError._STATE, KafkaError._FATAL, KafkaError._FENCED})


def batch_config(config: Config, transactional_id: str, batch_bytes: int | None) -> dict[str, Any]:
    """Brokers, security and compression are the user's; all else keeps the promise.

    No batch is larger than `batch_bytes`, the smallest `max.message.bytes` among the topics that
    are sent to: a broker refuses a batch, not only a message, that is larger.
    """
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
    ours |= bounded_socket_timeout(config, TRANSACTION_TIMEOUT_MS)
    compression = {key: value for key, value in config.items() if key.startswith("compression.")}
    return {**QUIET, **connection(config), **compression, **ours}


class BatchTransactions:
    """One confluent_kafka `Producer`, each of whose transactions holds a whole batch.

    The last to initialise under a `transactional.id` has it: the transactions of all before are
    over, committed or aborted, when `initialise` returns, and none of theirs commits after it. So
    a producer is never replaced here: its initialisation would fence a newer rival.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        producer: Callable[..., Any] = Producer,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`config` has a `transactional.id`. Connects at `initialise`."""
        self._name = str(config["transactional.id"])
        self._producer = TransactionalProducer("", config, producer)
        self._now_s = now_s
        self._failure: tuple[KafkaError, str] | None = None

    def initialise(self, within_s: float) -> None:
        """Fence all before. Raises `ConfigurationError`, `BrokerError`, `FencedError`."""
        self._producer.check()
        step = self._until_answered(self._producer.initialise, self._now_s() + within_s)
        if not isinstance(step, Completed):
            _give_up(step, f"transactional.id {self._name!r} cannot be taken")

    def commit(self, records: Sequence[OutgoingRecord], within_s: float) -> None:
        """All of `records`, in order, are there when it returns.

        Raises `FencedError` where a newer producer has this id, and `BrokerError` where it cannot
        be done `within_s` or at all. None of them is there then; but where the answer to the commit
        itself has not come, nobody knows until the next `initialise` of this id, which decides it.
        An exception from outside, as Ctrl-C, aborts.
        """
        until_s, handed_over = self._now_s() + within_s, True
        self._failure = None
        try:
            step = self._producer.begin()
            if isinstance(step, Completed):
                handed_over = self._hand_over(records, until_s)
                # One that is not handed over whole has failed already: this only asks for why.
                step = self._until_answered(self._producer.commit, until_s)
            if isinstance(step, Broken):
                self._producer.leave_behind()
        finally:
            if self._producer.in_transaction:
                self._producer.abort(_ABORT_S)
        if not isinstance(step, Completed):
            self._raise(step)
        if not handed_over:
            raise AssertionError("librdkafka has committed a transaction that had failed")

    def _hand_over(self, records: Iterable[OutgoingRecord], until_s: float) -> bool:
        for record in records:
            try:
                while not self._taken(record):
                    if self._now_s() > until_s:
                        raise BrokerError("the producer's queue stays full: no broker takes it")
                    self._producer.poll(_ROOM_S)
            except KafkaException as refused:
                error = refused.args[0]
                if error.code() in _BROKEN_OFF:
                    return False
                raise BrokerError(f"{record.destination}: {error.str()}") from refused
        return True

    def _taken(self, record: OutgoingRecord) -> bool:
        try:
            self._producer.produce(record, self._report)
        except BufferError:
            return False
        return True

    def _report(self, error: KafkaError | None, message: Message) -> None:
        # What is purged by an abort has failed for the reason that is known already.
        if error is not None and self._failure is None:
            self._failure = error, f"{message.topic()}[{message.partition()}]"

    def _until_answered(self, call: Callable[[float], Step], until_s: float) -> Step:
        while True:
            step = call(min(_SLICE_S, max(until_s - self._now_s(), 0.001)))
            if not isinstance(step, Unfinished) or self._now_s() > until_s:
                return step

    def _raise(self, step: Unfinished | Refused | Broken) -> NoReturn:
        if self._failure is not None and isinstance(step, Refused):
            error, place = self._failure
            raise BrokerError(f"{place}: {error.str()} ({error.name()})")
        _give_up(step, "the transaction is not committed")


def _give_up(step: Unfinished | Refused | Broken, what: str) -> NoReturn:
    error = step.error
    if isinstance(step, Broken) and error.code() in _FENCED:
        raise FencedError(f"{what}: {error.str()}")
    remedy = ""
    if error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        remedy = "; ask for WRITE and DESCRIBE on it"
    raise BrokerError(f"{what}: {error.str()} ({error.name()}){remedy}")
