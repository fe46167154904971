"""Sends the rows of a micro-batch as dead letters, each until it is acknowledged."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from linear_retry.consumer.dead_letters.publisher import TooLarge, addressed, unsent
from linear_retry.consumer.dead_letters.settings import DeadLetters
from linear_retry.errors import BrokerError, ConfigurationError, UnknownTopicError
from linear_retry.kafka import Producer
from linear_retry.kafka.producers.acknowledged import AcknowledgedProducer
from linear_retry.kafka.topics.reader import TopicReader
from linear_retry.records.dead_letter import DeadLetter, smaller_forms
from linear_retry.records.record import OutgoingRecord, Record
from linear_retry.retry.clock import Clock
from linear_retry.retry.engine import Abandoned, Acknowledged, Answer, NotSent

_LONGEST_POLL_S = 0.25  # a stop is heard between two calls into librdkafka, not inside one

PartitionsOf = Callable[[str], int]
"""How many partitions a topic has. Raises `UnknownTopicError` and `BrokerError`."""


@dataclass(frozen=True, slots=True)
class Kafka:
    """What delivery needs of the world: tests bring a fake one."""

    producer_config: Mapping[str, Any]
    partitions_of: PartitionsOf
    answer_within_s: float
    producer: Callable[..., Any] = Producer


def asking(connection: Mapping[str, Any]) -> PartitionsOf:
    """Asks the cluster, by a handle that creates no topic."""
    return lambda topic: len(TopicReader(connection).partitions(topic))


class RowPublisher:
    """Sends dead letters, one at a time: what comes before is acknowledged."""

    def __init__(self, letters: DeadLetters, kafka: Kafka, clock: Clock) -> None:
        self._letters = letters
        self._kafka = kafka
        self._clock = clock
        self._producer = AcknowledgedProducer(letters.topic, kafka.producer_config, kafka.producer)
        self._partitions: int | None = None

    @property
    def topic(self) -> str:
        return self._letters.topic

    def prepare(self) -> None:
        """Raises `ConfigurationError`, `UnknownTopicError` and `BrokerError`."""
        self._producer.check()
        self._partitions = self._kafka.partitions_of(self.topic)

    def send(self, letter: DeadLetter, record: Record, is_stopping: Callable[[], bool]) -> Answer:
        """Send and wait for the answer, whatever form of the letter is not too large.

        Raises `ConfigurationError` where the record is from the dead-letter topic itself, and
        `FencedError`.
        """
        self._refuse_own(record)
        try:
            if self._partitions is None:
                self._partitions = self._kafka.partitions_of(self.topic)
        except (UnknownTopicError, BrokerError) as error:
            return NotSent(str(error))
        answer: Answer = NotSent("no form of it was small enough")
        referred = record if self._letters.oversized == "reference" else None
        for form in smaller_forms(letter, referred):
            sent = self._sent(addressed(self.topic, form, self._partitions), is_stopping)
            if not isinstance(sent, TooLarge):
                answer = sent
                break
            answer = NotSent(sent.error)
        if isinstance(answer, NotSent):
            self._partitions = None  # asked anew before the next: it may be another topic then
            self._producer.renew()
        return answer

    def close(self) -> None:
        """Forget what is not acknowledged: its batch is not done, it will be sent again."""
        self._producer.renew()

    # -- inside ------------------------------------------------------------------------------

    def _sent(self, outgoing: OutgoingRecord, is_stopping: Callable[[], bool]) -> Answer | TooLarge:
        """What came of it. A success is what the report says."""
        delivery = self._producer.send(outgoing)
        give_up_at_s = self._clock.now_s() + self._kafka.answer_within_s
        while not delivery.done and self._clock.now_s() < give_up_at_s:
            self._producer.poll(_LONGEST_POLL_S)
            if not delivery.done and is_stopping():
                return Abandoned()
        return Acknowledged() if delivery.succeeded else unsent(delivery)

    def _refuse_own(self, record: Record) -> None:
        if record.topic == self.topic:
            raise ConfigurationError(
                f"dead_letters={self.topic!r}: the stream reads this topic, and would be given its "
                "own letters; choose another topic"
            )
