"""How does a letter go out by itself?"""

from __future__ import annotations

from linear_retry.consumer.circuits import Held
from linear_retry.consumer.letters import Abandoned, Acknowledged, Answer, NotSent, TooLarge
from linear_retry.consumer.patience import Patience
from linear_retry.kafka import KafkaError
from linear_retry.kafka.dead_letter_producer import DeadLetterProducer, Outgoing, Sending


class PlainWay:
    """The letter by itself; its offset is committed after the delivery report says no error."""

    def __init__(self, producer: DeadLetterProducer, patience: Patience) -> None:
        self._producer = producer
        self._patience = patience

    @property
    def topic(self) -> str:
        return self._producer.topic

    def prepare(self) -> None:
        self._producer.check()

    def send(self, held: Held, record: Outgoing) -> Answer | TooLarge:
        """A success is what the delivery report says, never less.

        Waits in the producer's poll, where the answer comes (the consumer's costs up to a second).
        """
        sending = self._producer.send(record)
        if not self._patience.until(lambda: sending.done, held, self._producer.poll):
            return Abandoned()
        return Acknowledged() if sending.succeeded else unsent(sending)

    def settled(self, held: Held) -> None:
        """Never: a letter that is sent once more for want of an answer has the same id."""

    def failed(self) -> None:
        self._producer.renew()

    def listen(self) -> None:
        self._producer.poll(0)

    def close(self) -> None:
        self._producer.renew()


def unsent(sending: Sending) -> NotSent | TooLarge:
    """Why this one was not acknowledged."""
    if not sending.done or sending.error is None:
        return NotSent("no delivery report came")
    text = said(sending.error)
    return TooLarge(text) if sending.too_large else NotSent(text)


def said(error: KafkaError) -> str:
    """Kafka's error, for a person."""
    return f"{error.name()}: {error.str()}"
