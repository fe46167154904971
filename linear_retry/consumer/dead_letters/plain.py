"""How does a letter go out by itself?"""

from __future__ import annotations

from linear_retry.consumer.dead_letters.ack_wait import STOP_GRACE_S, Patience
from linear_retry.consumer.dead_letters.publisher import (
    Abandoned,
    Acknowledged,
    Answer,
    NotSent,
    TooLarge,
)
from linear_retry.kafka import KafkaError
from linear_retry.kafka.producers.acknowledged import AcknowledgedProducer, Delivery
from linear_retry.records.record import OutgoingRecord
from linear_retry.retry.circuits import Held


class PlainWay:
    """The letter by itself; its offset is committed after the delivery report says no error."""

    def __init__(self, producer: AcknowledgedProducer, patience: Patience) -> None:
        self._producer = producer
        self._patience = patience
        self._unheard: Delivery | None = None

    @property
    def topic(self) -> str:
        return self._producer.topic

    def partitions(self, timeout_s: float) -> int | None:
        return self._producer.partitions(timeout_s)

    def prepare(self) -> None:
        self._producer.check()

    def send(self, held: Held, record: OutgoingRecord) -> Answer | TooLarge:
        """A success is what the delivery report says, never less.

        Waits in the producer's poll, where the answer comes (the consumer's costs up to a second).
        """
        delivery, answered = self._producer.send(record), False
        try:
            heard = self._patience.until(lambda: delivery.done, held, self._producer.poll)
            heard = heard or self._hear_out(held, delivery)
            # Where the partition has come back to us, the message comes again too, and it is then
            # that its letter is told.
            answered = heard and not self._patience.has_come_back(held)
        finally:
            if not answered:
                self._unheard = delivery
        if not answered:
            return Abandoned()
        return Acknowledged() if delivery.succeeded else unsent(delivery)

    def failed(self) -> None:
        self._producer.renew()

    def listen(self) -> None:
        self._producer.poll(0)
        # Told from here on, it would be taken for a letter of what is attempted meanwhile.
        self._unheard = None

    def close(self) -> bool:
        self._producer.renew()
        return self._unheard is not None and self._unheard.succeeded

    # -- inside ----------------------------------------------------------------------------

    def _hear_out(self, held: Held, delivery: Delivery) -> bool:
        """Its message is another's now, or we stop; is the letter there all the same?

        After a revoke the report is on its way, as a rule: a second is enough.
        """
        if not self._patience.is_ours(held):
            self._producer.poll(STOP_GRACE_S)
        return delivery.succeeded


def unsent(delivery: Delivery) -> NotSent | TooLarge:
    """Why this one was not acknowledged."""
    if not delivery.done or delivery.error is None:
        return NotSent("no delivery report came")
    text = said(delivery.error)
    return TooLarge(text) if delivery.too_large else NotSent(text)


def said(error: KafkaError) -> str:
    """Kafka's error, for a person."""
    return f"{error.name()}: {error.str()}"
