"""The producer of one task, which keeps the order of each partition also where sending fails."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

from linear_retry.errors import BrokerError
from linear_retry.kafka import KafkaError, KafkaException, Producer
from linear_retry.kafka.consumer.settings import servers_of
from linear_retry.kafka.producers.acknowledged import (
    TOO_LARGE,
    Delivery,
    control_config,
    partitions,
    queued,
    unacknowledged,
)
from linear_retry.kafka.producers.murmur2 import partition_of_key
from linear_retry.kafka.quiet import make_client, text_of
from linear_retry.records.record import OutgoingRecord
from linear_retry.spark.ingestion.sources import librdkafka_keys
from linear_retry.store.sender.batch import OF_THE_RECORD, size_bytes

Lane: TypeAlias = tuple[str, int | None]
"""A topic and a partition, of which records are sent in order; None: those without a key."""

Letter: TypeAlias = tuple[OutgoingRecord, Iterator[OutgoingRecord]]
"""A record, and smaller and smaller forms of it."""

Progress: TypeAlias = Callable[[int], object]
"""Called with how many records are sent: so many of the first, in the order given."""

_AT_ONCE, _ACKNOWLEDGED_WITHIN_S = 5_000, 60.0
_ANSWER_S = 10.0
_DELIVERED_S = 10.0
_SLICE_S = 0.5
_BATCH_BYTES = 16_384
"""A broker refuses a whole batch for one record, or for its size: the smaller, the fewer."""
_OF_THE_BATCH = OF_THE_RECORD | {KafkaError._INVALID_DIFFERENT_RECORD}
_KEYS = {
    # An idempotent producer waits half a second for its id, and a task lasts little longer. One
    # request at a time keeps the order too.
    "enable.idempotence": False,
    "max.in.flight.requests.per.connection": 1,
    # With a time for each record, one could be given up while the next one of its partition is
    # still delivered. `finish` gives up all that is left of a partition at once.
    "message.timeout.ms": 0,
    "batch.size": _BATCH_BYTES,
    "linger.ms": 5,
}


class TaskProducer:
    """Sends records; where some of a partition are not acknowledged, these are its last ones."""

    def __init__(
        self,
        config: Mapping[str, Any],
        producer: Callable[..., Any] = Producer,
        answer_s: float = _ANSWER_S,
        delivered_s: float = _DELIVERED_S,
    ) -> None:
        """Creates the client, which connects at the first call."""
        keys = control_config(config, delivered_s) | _KEYS
        self._client = make_client(producer, keys)
        self._answer_s, self._delivered_s = answer_s, delivered_s
        self._partitions: dict[str, int | None] = {}

    def partitions(self, topic: str) -> int | None:
        """Returns the topic's number of partitions; None: it is not visible.

        Raises `BrokerError` if no broker answers.
        """
        if topic not in self._partitions:
            try:
                self._partitions[topic] = partitions(self._client, topic, self._answer_s)
            except KafkaException as error:
                raise BrokerError(f"{topic}: no broker answers: {text_of(error)}") from error
        return self._partitions[topic]

    def lane(self, record: OutgoingRecord) -> Lane:
        """Returns where a record goes, before it is sent."""
        number, count = record.partition, self.partitions(record.topic)
        if number is None and record.key is not None and count is not None:
            # librdkafka tells a key's partition only of what was produced, and waits for it then.
            number = partition_of_key(record.key, count)
        return record.topic, number

    def begin(self, record: OutgoingRecord) -> Delivery:
        """Hands over one record. Bound their number: they are in memory until `finish`."""
        return queued(self._client, record)

    def poll(self, timeout_s: float) -> None:
        """Waits so long, and sends meanwhile."""
        self._client.poll(timeout_s)

    def finish(self, sent: Sequence[tuple[OutgoingRecord, Delivery]]) -> list[KafkaError | None]:
        """Waits for what was begun, in that order; returns the error of each, None if it is taken.

        What was refused beside others is sent once more, alone: the broker refuses a batch as a
        whole. (Records of the partition's next batch were sent meanwhile. Only a topic that takes
        less than such a batch, or invalid records, can show that.) Raises `BrokerError` if nothing
        was taken and no broker answers.
        """
        self._flush()
        found, stuck = list[KafkaError | None](), dict[Lane, KafkaError]()
        for record, delivery in sent:
            error = _error(delivery)
            if error is not None:
                lane = self.lane(record)
                if lane in stuck:
                    error = stuck[lane]
                elif _was_beside_others(record, error):
                    error = self._sent_alone(record)
                if error is not None and error.code() not in _OF_THE_BATCH:
                    stuck[lane] = error
            found.append(error)
        # (`None in found` would compare a KafkaError with it, which leaves a TypeError pending.)
        if found and all(error is not None for error in found):
            # One partition has no leader, or the cluster is gone.
            self._partitions.clear()
            self.partitions(sent[0][0].topic)
        return found

    def deliver(self, records: Sequence[OutgoingRecord]) -> list[KafkaError | None]:
        """Sends records in order, and returns as `finish`."""
        return self.finish([(each, self.begin(each)) for each in records])

    def deliver_letters(self, letters: Sequence[Letter]) -> list[KafkaError | None]:
        """Sends each in the first form that is not too large, and returns as `finish`."""
        found = self.deliver([record for record, _ in letters])
        while smaller := [
            (index, form)
            for index, error in enumerate(found)
            if error is not None and error.code() in TOO_LARGE
            if (form := next(letters[index][1], None)) is not None
        ]:
            errors = self.deliver([form for _, form in smaller])
            for (index, _), error in zip(smaller, errors, strict=True):
                found[index] = error
        return found

    def _sent_alone(self, record: OutgoingRecord) -> KafkaError | None:
        delivery = self.begin(record)
        self._flush()
        return _error(delivery)

    def _flush(self) -> None:
        """Waits while there is progress, then gives up all that is left."""
        left, until_s = self._client.flush(0), time.monotonic() + self._delivered_s
        while before := left:
            left = self._client.flush(_SLICE_S)
            if left < before:
                until_s = time.monotonic() + self._delivered_s
            elif time.monotonic() > until_s:
                self._client.purge()
                self._client.flush(_SLICE_S)
                return


def write(
    config: Mapping[str, Any],
    letters: Iterable[Letter],
    progress: Progress = lambda _: None,
    *,
    compression: str = "none",
) -> int:
    """Sends records in order, and returns how many. Raises `BrokerError`."""
    keys, count = librdkafka_keys(config), 0
    producer = TaskProducer(
        keys,
        lambda config: Producer({**config, "compression.type": compression}),
        delivered_s=_ACKNOWLEDGED_WITHIN_S,
    )
    waiting = iter(letters)
    while some := list(islice(waiting, _AT_ONCE)):
        for index, error in enumerate(producer.deliver_letters(some)):
            if error is not None:
                progress(count + index)
                raise unacknowledged(servers_of(keys), some[index][0], error)
        count += len(some)
        progress(count)
    return count


def _error(delivery: Delivery) -> KafkaError | None:
    if delivery.succeeded:
        return None
    error = delivery.error
    if error is None or error.code() in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT):
        return KafkaError(KafkaError._MSG_TIMED_OUT)
    return error


def _was_beside_others(record: OutgoingRecord, error: KafkaError) -> bool:
    """Whether its batch, and not this record, may be what was refused."""
    return error.code() in _OF_THE_BATCH and size_bytes(record) < _BATCH_BYTES
