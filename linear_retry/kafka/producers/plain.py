"""Is this dead letter acknowledged, and if not, why?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from linear_retry.errors import ConfigurationError, FencedError

# Without DESCRIBE a broker refuses to say whether there is one.
_UNSEEN = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
)
_TOO_LARGE = frozenset(
    {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE, KafkaError.RECORD_LIST_TOO_LARGE}
)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One record. Without a partition librdkafka chooses by the key."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int | None = None


@dataclass(slots=True)
class Sending:
    """One letter on its way. `error` is only meaningful once `done`."""

    done: bool = False
    error: KafkaError | None = None

    @property
    def succeeded(self) -> bool:
        return self.done and self.error is None

    @property
    def too_large(self) -> bool:
        """Refused for its size: a smaller form of the same letter may pass."""
        return self.error is not None and self.error.code() in _TOO_LARGE

    def report(self, error: KafkaError | None, _: Message | None = None) -> None:
        """The first report counts: one that follows a fatal error only says that it was purged."""
        if not self.done:
            self.error = error
            self.done = True


class DeadLetterProducer:
    """A confluent_kafka `Producer` for one topic, idempotent, with all replicas' acknowledgement.

    A success is what the delivery report says, never the return of `produce`. A delivery timeout
    is ambiguous, the record may be there: the letter's `retry-id` lets readers drop duplicates.
    """

    def __init__(
        self, topic: str, config: Mapping[str, Any], producer: Callable[..., Any] = Producer
    ) -> None:
        """Connects at the first `send`."""
        self.topic = topic
        self._config = dict(config)
        self._make = producer
        self._producer: Any = None
        self._fatal: KafkaError | None = None
        self._sending: Sending | None = None

    def check(self) -> None:
        """Raises `ConfigurationError` where librdkafka refuses a key. Makes the handle."""
        checked(self._handle)

    def partitions(self, timeout_s: float) -> int | None:
        """How many the topic has in the cluster that letters go to; None: it is not seen there.

        Creates none. Raises `KafkaException` where no broker answers.
        """
        return partitions_of(self._handle(), self.topic, timeout_s)

    def send(self, record: Outgoing) -> Sending:
        """Hand one record over. `poll` brings the answer into what is returned."""
        self._sending = produce(self._handle, self.topic, record)
        return self._sending

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
            if self._sending is not None:
                self._sending.report(fatal)
            self.renew()

    def renew(self) -> None:
        """Forget the present producer, and what it has not sent, with its stale view of topics."""
        if self._producer is not None:
            self._producer.purge()
            with suppress(KafkaException):  # it is fatal, and the producer goes
                self._producer.poll(0)
        self._producer = self._sending = None
        # What the old one said on its way out is not about the next one.
        self._fatal = None

    def _handle(self) -> Any:
        if self._producer is None:
            self._producer = self._make(self._config | {"error_cb": self._on_error})
        return self._producer

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal() or error.code() in (KafkaError._FATAL, KafkaError._FENCED):
            self._fatal = error


def checked(handle: Callable[[], object]) -> None:
    """Make the handle. Raises `ConfigurationError` where librdkafka refuses a key."""
    try:
        handle()
    except (KafkaException, ValueError, TypeError) as error:
        raise ConfigurationError(
            f"librdkafka refuses the dead-letter producer's configuration: {error}; correct "
            "the key it names, in DeadLetters(config=...)"
        ) from error


def partitions_of(handle: Any, topic: str, timeout_s: float) -> int | None:
    """How many partitions a client sees; None: it sees no such topic. Raises `KafkaException`."""
    described = handle.list_topics(topic, timeout=timeout_s).topics[topic]
    if described.error is None:
        return len(described.partitions)
    if described.error.code() in _UNSEEN:
        return None
    raise KafkaException(described.error)


def produce(handle: Callable[[], Any], topic: str, record: Outgoing) -> Sending:
    """Hand one record over; what is refused at once is an answer like others."""
    sending = Sending()
    options = {} if record.partition is None else {"partition": record.partition}
    try:
        handle().produce(
            topic,
            record.value,
            record.key,
            headers=record.headers,
            on_delivery=sending.report,
            **options,
        )
    except KafkaException as error:
        sending.report(error.args[0])
    except BufferError:
        sending.report(KafkaError(KafkaError._QUEUE_FULL, "the producer's queue is full"))
    return sending
