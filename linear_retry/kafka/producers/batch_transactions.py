"""Writes whole batches of records in transactions, each entirely or not at all."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from linear_retry.errors import BrokerError, FencedError
from linear_retry.kafka.consumer.settings import Config, bounded_socket_timeout, connection
from linear_retry.kafka.producers.acknowledged import LARGEST_MESSAGE_BYTES
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
"""How long readers may wait for the transaction of a sender that was killed."""

_BATCH_BYTES = 1_000_000  # librdkafka's default
_SLICE_S = 0.5  # Ctrl-C takes effect between two calls into librdkafka, not inside one
_ABORT_S = 2.0
_ROOM_S = 0.1
_FENCED = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
)
# What an abort purges has failed for a reason that another record's report gives.
_PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
# The transaction has failed already: its commit reports why.
_BROKEN_OFF = frozenset({KafkaError._STATE, KafkaError._FATAL, KafkaError._FENCED})


def batch_config(config: Config, transactional_id: str, batch_bytes: int | None) -> dict[str, Any]:
    """Returns the producer's keys: the user's brokers, security and compression; the rest is fixed.

    No batch exceeds `batch_bytes`, the smallest `max.message.bytes` of the target topics: a broker
    refuses larger batches, not only larger messages.
    """
    ours: dict[str, Any] = {
        "transactional.id": transactional_id,
        "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
        "message.timeout.ms": TRANSACTION_TIMEOUT_MS,
        "acks": "all",
        "enable.idempotence": True,
        "message.max.bytes": LARGEST_MESSAGE_BYTES,
        "batch.size": min(_BATCH_BYTES, batch_bytes or _BATCH_BYTES),
        "linger.ms": 5,
        # Like the consumer's dead letters, and like Java's clients.
        "partitioner": "murmur2_random",
        # Else consecutive transactions take 100 ms each.
        "retry.backoff.ms": 10,
        # Else a deleted topic is recreated with the broker's defaults.
        "allow.auto.create.topics": False,
        # The commit confirms all of them; a report for each would halve the speed.
        "delivery.report.only.error": True,
    }
    ours |= bounded_socket_timeout(config, TRANSACTION_TIMEOUT_MS)
    compression = {key: value for key, value in config.items() if key.startswith("compression.")}
    return {**QUIET, **connection(config), **compression, **ours}


class RefusedRecordsError(BrokerError):
    """Nothing of the batch is written: `refused` has the records' places in it, and the errors.

    Others may be refused as well, once these are left out.
    """

    def __init__(self, text: str, refused: Mapping[int, KafkaError]) -> None:
        super().__init__(text)
        self.refused = refused


class BatchTransactions:
    """One confluent_kafka `Producer`, each of whose transactions holds a whole batch.

    The last producer to initialise with a `transactional.id` owns it: when `initialise` returns,
    all earlier producers' transactions have ended, and they cannot commit any more. So a producer
    is never replaced here: the new one would fence a newer rival.
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
        self._refused: dict[int, tuple[KafkaError, str]] = {}

    def initialise(self, within_s: float) -> None:
        """Fences earlier producers. Raises `ConfigurationError`, `BrokerError`, `FencedError`."""
        self._producer.check()
        step = self._until_answered(self._producer.initialise, self._now_s() + within_s)
        if not isinstance(step, Completed):
            _give_up(step, f"transactional.id {self._name!r} cannot be initialised")

    def commit(self, records: Sequence[OutgoingRecord], within_s: float) -> None:
        """Writes all of `records`, in order, in one transaction.

        Raises `FencedError` if a newer producer has this id, `RefusedRecordsError` if brokers
        refuse some, and `BrokerError` if it fails otherwise, or not all is done `within_s`. None is
        written then; but without an answer to the commit itself, the outcome is unknown until the
        next `initialise` with this id, which decides it. Any other exception, such as Ctrl-C,
        aborts.
        """
        until_s, handed_over = self._now_s() + within_s, True
        self._refused = {}
        try:
            step = self._producer.begin()
            if isinstance(step, Completed):
                handed_over = self._hand_over(records, until_s)
                # A batch not handed over completely has failed already: this only gets the reason.
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
        for index, record in enumerate(records):
            try:
                while not self._taken(index, record):
                    if self._now_s() > until_s:
                        raise BrokerError("the producer's queue stays full: no broker takes it")
                    self._producer.poll(_ROOM_S)
            except KafkaException as refused:
                error = refused.args[0]
                if error.code() in _BROKEN_OFF:
                    return False
                text = f"{record.destination}: {error.str()}"
                raise RefusedRecordsError(text, {index: error}) from refused
        return True

    def _taken(self, index: int, record: OutgoingRecord) -> bool:
        try:
            self._producer.produce(record, partial(self._report, index))
        except BufferError:
            return False
        return True

    def _report(self, index: int, error: KafkaError | None, message: Message) -> None:
        if error is not None and error.code() not in _PURGED:
            self._refused[index] = error, f"{message.topic()}[{message.partition()}]"

    def _until_answered(self, call: Callable[[float], Step], until_s: float) -> Step:
        while True:
            step = call(min(_SLICE_S, max(until_s - self._now_s(), 0.001)))
            if not isinstance(step, Unfinished) or self._now_s() > until_s:
                return step

    def _raise(self, step: Unfinished | Refused | Broken) -> NoReturn:
        if self._refused and isinstance(step, Refused):
            error, place = next(iter(self._refused.values()))
            refused = {index: each for index, (each, _) in self._refused.items()}
            raise RefusedRecordsError(f"{place}: {error.str()} ({error.name()})", refused)
        _give_up(step, "the transaction is not committed")


def _give_up(step: Unfinished | Refused | Broken, what: str) -> NoReturn:
    error = step.error
    if isinstance(step, Broken) and error.code() in _FENCED:
        raise FencedError(f"{what}: {error.str()}")
    remedy = ""
    if error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        remedy = "; ask for WRITE and DESCRIBE on it"
    raise BrokerError(f"{what}: {error.str()} ({error.name()}){remedy}")
