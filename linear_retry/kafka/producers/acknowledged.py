"""The acknowledged producer: a record counts as written only after its delivery report."""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from linear_retry.errors import BrokerError, FencedError, UnknownTopicError
from linear_retry.kafka.consumer.settings import Config, connection, servers_of
from linear_retry.kafka.quiet import QUIET, make_client, refused_keys
from linear_retry.kafka.topics.standalone_consumer import MISSING
from linear_retry.records.record import OutgoingRecord

# Without DESCRIBE a broker does not reveal whether the topic exists.
_UNSEEN = (*MISSING, KafkaError.TOPIC_AUTHORIZATION_FAILED)
TOO_LARGE = frozenset(
    {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE, KafkaError.RECORD_LIST_TOO_LARGE}
)
LARGEST_MESSAGE_BYTES = 1_000_000_000
"""librdkafka's upper bound. By default it refuses a megabyte itself, whatever the topic takes."""
_SLICE_S = 0.5  # Ctrl-C takes effect between two calls into librdkafka, not inside one


@dataclass(slots=True)
class Delivery:
    """One record in flight. `error` and `offset` are valid only once it is `done`."""

    done: bool = False
    error: KafkaError | None = None
    offset: int = -1

    @property
    def succeeded(self) -> bool:
        return self.done and self.error is None

    @property
    def too_large(self) -> bool:
        """Whether it was refused for its size: a smaller form of the letter may pass."""
        return self.error is not None and self.error.code() in TOO_LARGE

    def report(self, error: KafkaError | None, message: Message | None = None) -> None:
        """Takes the delivery report. Only the first counts: a purge may report again later."""
        if not self.done:
            self.error = error
            self.offset = (message.offset() if message else None) or 0
            self.done = True


class ProducerHandle:
    """A confluent_kafka `Producer`, created on first use."""

    def __init__(self, config: Mapping[str, Any], producer: Callable[..., Any] = Producer) -> None:
        self._config = dict(config)
        self._make = producer
        self._producer: Any = None

    def check(self) -> None:
        """Creates the producer. Raises `ConfigurationError` if librdkafka refuses a key."""
        with refused_keys("the producer's"):
            self._handle()

    def _handle(self) -> Any:
        if self._producer is None:
            self._producer = self._make(self._config | {"error_cb": self._on_error})
        return self._producer

    def _on_error(self, error: KafkaError) -> None:
        """Does nothing: each call reports its errors; without a callback librdkafka logs lines."""


class AcknowledgedProducer(ProducerHandle):
    """A confluent_kafka `Producer` for one topic, idempotent, with all replicas' acknowledgement.

    Only a delivery report means success, never the return of `produce`. A delivery timeout is
    ambiguous, as the record may exist: the letter's `retry-id` lets readers drop duplicates.
    """

    def __init__(
        self, topic: str, config: Mapping[str, Any], producer: Callable[..., Any] = Producer
    ) -> None:
        """Connects at the first `send`."""
        super().__init__(config, producer)
        self.topic = topic
        self._fatal: KafkaError | None = None
        self._delivery: Delivery | None = None

    def partitions(self, topic: str, timeout_s: float) -> int | None:
        """Returns the topic's number of partitions, in the producer's cluster; None if not visible.

        Raises `KafkaException` where no broker answers.
        """
        return partitions(self._handle(), topic, timeout_s)

    def cluster_id(self, timeout_s: float) -> str:
        """Returns the id of the producer's cluster. Raises `KafkaException` without an answer."""
        return str(self._handle().list_topics(timeout=timeout_s).cluster_id)

    def send(self, record: OutgoingRecord) -> Delivery:
        """Hands over one record. `poll` completes the delivery that is returned.

        An immediate refusal completes it as well.
        """
        delivery = self._delivery = Delivery()
        try:
            produce(self._handle(), record, delivery.report)
        except KafkaException as error:
            delivery.report(error.args[0])
        except BufferError:
            delivery.report(KafkaError(KafkaError._QUEUE_FULL, "the producer's queue is full"))
        return delivery

    def poll(self, timeout_s: float) -> None:
        """Waits for delivery reports, at most `timeout_s`. Raises `FencedError`.

        After any other fatal error the next `send` creates a new producer. confluent_kafka raises
        fatal errors here, such as the refusal of an id for an idempotent producer.
        """
        if self._producer is None:
            return
        try:
            self._producer.poll(timeout_s)
        except KafkaException as error:
            self._fatal = error.args[0]
        if self._fatal is not None:
            fatal, self._fatal = self._fatal, None
            if fatal.code() == KafkaError._FENCED:
                raise FencedError(f"the dead-letter producer was fenced: {fatal.str()}")
            if self._delivery is not None:
                self._delivery.report(fatal)
            self.renew()

    def renew(self) -> None:
        """Drops the current producer with what it has not sent, and its stale view of topics."""
        if self._producer is not None:
            self._producer.purge()
            with suppress(KafkaException):  # fatal, and the producer is dropped
                self._producer.poll(0)
        self._producer = self._delivery = None
        # Errors of the old producer as it closed do not concern the next one.
        self._fatal = None

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal() or error.code() in (KafkaError._FATAL, KafkaError._FENCED):
            self._fatal = error


def partitions(handle: Any, topic: str, timeout_s: float) -> int | None:
    """As `AcknowledgedProducer.partitions`, for a producer of librdkafka."""
    described = handle.list_topics(topic, timeout=timeout_s).topics[topic]
    if described.error is None:
        return len(described.partitions)
    if described.error.code() in _UNSEEN:
        return None
    raise KafkaException(described.error)


def produce(handle: Any, record: OutgoingRecord, on_delivery: Callable[..., object]) -> None:
    """Hands one record to librdkafka. Raises `KafkaException`; `BufferError` if the queue is full.

    Without a partition or time, librdkafka chooses it.
    """
    options: dict[str, Any] = {"on_delivery": on_delivery}
    if record.headers:
        options["headers"] = list(record.headers)
    if record.partition is not None:
        options["partition"] = record.partition
    if record.timestamp_ms is not None:
        options["timestamp"] = record.timestamp_ms
    handle.produce(record.topic, record.value, record.key, **options)


def control_config(config: Config, timeout_s: float) -> dict[str, Any]:
    """Returns the keys of the producer for operators' commands. Creates no topic."""
    return {
        **QUIET,
        **connection(config),
        "acks": "all",
        "linger.ms": 0,
        # One command is one record, and its id identifies duplicates.
        "enable.idempotence": True,
        "message.timeout.ms": int(timeout_s * 1000),
        "allow.auto.create.topics": False,
        "message.max.bytes": LARGEST_MESSAGE_BYTES,
        "partitioner": "murmur2_random",
    }


def write_all(
    config: Mapping[str, Any],
    records: Iterable[OutgoingRecord],
    within_s: float = 10.0,
    producer: Callable[..., Any] = Producer,
) -> list[int]:
    """Writes records in order; returns their offsets, once all are acknowledged.

    Raises `ConfigurationError` for a refused key, `UnknownTopicError` if a topic is missing, and
    `BrokerError` if a record is refused, or not acknowledged `within_s` of the last: it may exist
    nevertheless.
    """
    handle = make_client(producer, dict(config))
    sent = [(record, queued(handle, record)) for record in records]
    deadline_s = time.monotonic() + within_s
    while handle.flush(_SLICE_S) and time.monotonic() < deadline_s:
        pass
    for record, delivery in sent:
        if not delivery.succeeded:
            raise unacknowledged(servers_of(config), record, delivery.error)
    return [delivery.offset for _, delivery in sent]


def queued(handle: Any, record: OutgoingRecord) -> Delivery:
    """Hands one record to librdkafka, and waits while its queue is full.

    An immediate refusal completes the delivery that is returned.
    """
    delivery = Delivery()
    while True:
        try:
            produce(handle, record, delivery.report)
        except BufferError:
            handle.poll(_SLICE_S)
            continue
        except KafkaException as error:
            delivery.report(error.args[0])
        return delivery


def unacknowledged(where: str, record: OutgoingRecord, error: KafkaError | None) -> BrokerError:
    error = error or KafkaError(KafkaError._TIMED_OUT)
    if error.code() in MISSING:
        return UnknownTopicError(f"{where}: topic {record.topic!r} does not exist; check its name")
    if error.code() in TOO_LARGE:
        return BrokerError(
            f"{where}: {record.destination} takes no record so large: {error.str()}; raise the "
            "topic's max.message.bytes, and send it again"
        )
    return BrokerError(
        f"{where}: {record.destination} has not acknowledged it: {error.str()}; check the address "
        "and the permission to WRITE, and look whether it was written before you send it again"
    )
