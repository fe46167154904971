"""The acknowledged producer: a record is written when the delivery report says so, never before."""

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

# Without DESCRIBE a broker refuses to say whether there is one.
_UNSEEN = (*MISSING, KafkaError.TOPIC_AUTHORIZATION_FAILED)
TOO_LARGE = frozenset(
    {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE, KafkaError.RECORD_LIST_TOO_LARGE}
)
_SLICE_S = 0.5  # Ctrl-C is heard between two calls into librdkafka, not inside one


@dataclass(slots=True)
class Delivery:
    """One record on its way. `error` and `offset` are only meaningful once `done`."""

    done: bool = False
    error: KafkaError | None = None
    offset: int = -1

    @property
    def succeeded(self) -> bool:
        return self.done and self.error is None

    @property
    def too_large(self) -> bool:
        """Refused for its size: a smaller form of the same letter may pass."""
        return self.error is not None and self.error.code() in TOO_LARGE

    def report(self, error: KafkaError | None, message: Message | None = None) -> None:
        """The first report counts: one that follows a fatal error only says that it was purged."""
        if not self.done:
            self.error = error
            self.offset = (message.offset() if message else None) or 0
            self.done = True


class ProducerHandle:
    """A confluent_kafka `Producer`, made when it is needed."""

    def __init__(self, config: Mapping[str, Any], producer: Callable[..., Any] = Producer) -> None:
        self._config = dict(config)
        self._make = producer
        self._producer: Any = None

    def check(self) -> None:
        """Make the handle. Raises `ConfigurationError` where librdkafka refuses a key."""
        with refused_keys("the producer's"):
            self._handle()

    def _handle(self) -> Any:
        if self._producer is None:
            self._producer = self._make(self._config | {"error_cb": self._on_error})
        return self._producer

    def _on_error(self, error: KafkaError) -> None:
        """What is wrong comes with each call; without a callback librdkafka writes lines."""


class AcknowledgedProducer(ProducerHandle):
    """A confluent_kafka `Producer` for one topic, idempotent, with all replicas' acknowledgement.

    A success is what the delivery report says, never the return of `produce`. A delivery timeout
    is ambiguous, the record may be there: the letter's `retry-id` lets readers drop duplicates.
    """

    def __init__(
        self, topic: str, config: Mapping[str, Any], producer: Callable[..., Any] = Producer
    ) -> None:
        """Connects at the first `send`."""
        super().__init__(config, producer)
        self.topic = topic
        self._fatal: KafkaError | None = None
        self._delivery: Delivery | None = None

    def partitions(self, timeout_s: float) -> int | None:
        """How many the topic has in the cluster that letters go to; None: it is not seen there.

        Raises `KafkaException` where no broker answers.
        """
        described = self._handle().list_topics(self.topic, timeout=timeout_s).topics[self.topic]
        if described.error is None:
            return len(described.partitions)
        if described.error.code() in _UNSEEN:
            return None
        raise KafkaException(described.error)

    def send(self, record: OutgoingRecord) -> Delivery:
        """Hand one record over. `poll` brings the answer into what is returned.

        What is refused at once is an answer like others.
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
        """Wait for answers, at most `timeout_s`. Raises `FencedError`.

        After any other fatal error the next `send` makes a new producer. confluent_kafka raises
        what is fatal here, such as the refusal of an id for an idempotent producer.
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
        """Forget the present producer, and what it has not sent, with its stale view of topics."""
        if self._producer is not None:
            self._producer.purge()
            with suppress(KafkaException):  # it is fatal, and the producer goes
                self._producer.poll(0)
        self._producer = self._delivery = None
        # What the old one said on its way out is not about the next one.
        self._fatal = None

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal() or error.code() in (KafkaError._FATAL, KafkaError._FENCED):
            self._fatal = error


def produce(handle: Any, record: OutgoingRecord, on_delivery: Callable[..., object]) -> None:
    """Hand one record to librdkafka. Raises `KafkaException`, and `BufferError`: the queue is full.

    A missing partition or time is left out, for librdkafka to choose.
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
    """The keys of who sends an operator's commands. Creates no topic."""
    return {
        **QUIET,
        **connection(config),
        "acks": "all",
        "linger.ms": 0,
        # One command is one record; its id would tell two apart all the same.
        "enable.idempotence": True,
        "message.timeout.ms": int(timeout_s * 1000),
        "allow.auto.create.topics": False,
        "partitioner": "murmur2_random",
    }


def write_all(
    config: Mapping[str, Any],
    records: Iterable[OutgoingRecord],
    within_s: float = 10.0,
    producer: Callable[..., Any] = Producer,
) -> list[int]:
    """Write records in order; return the offset of each, once all are acknowledged.

    Raises `ConfigurationError` for a refused key, `UnknownTopicError` where a topic is missing, and
    `BrokerError` where one is refused, or not acknowledged `within_s` of the last: it may be there
    then all the same.
    """
    handle = make_client(producer, dict(config))
    sent = [(record, _queued(handle, record)) for record in records]
    deadline_s = time.monotonic() + within_s
    while handle.flush(_SLICE_S) and time.monotonic() < deadline_s:
        pass
    for record, delivery in sent:
        if not delivery.succeeded:
            raise _unacknowledged(servers_of(config), record, delivery.error)
    return [delivery.offset for _, delivery in sent]


def _queued(handle: Any, record: OutgoingRecord) -> Delivery:
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


def _unacknowledged(where: str, record: OutgoingRecord, error: KafkaError | None) -> BrokerError:
    error = error or KafkaError(KafkaError._TIMED_OUT)
    if error.code() in MISSING:
        return UnknownTopicError(f"{where}: there is no topic {record.topic!r}; check its name")
    return BrokerError(
        f"{where}: {record.destination} has not acknowledged it: {error.str()}; check the address "
        "and the permission to WRITE, and look at what has happened before you send it again"
    )
