"""Sends a dead letter by itself, outside any transaction."""

from __future__ import annotations

from typing import Any

from linear_retry.consumer.dead_letters.ack_wait import STOP_GRACE_S, AckWait, Steps
from linear_retry.consumer.dead_letters.publisher import TooLarge
from linear_retry.kafka import KafkaError
from linear_retry.kafka.producers.acknowledged import AcknowledgedProducer, Delivery
from linear_retry.records.record import OutgoingRecord
from linear_retry.retry.engine import Abandoned, Acknowledged, Answer, NotSent
from linear_retry.retry.held import Held


class PlainDelivery:
    """The letter by itself; its offset is committed after the delivery report says no error."""

    def __init__(self, producer: AcknowledgedProducer, wait: AckWait) -> None:
        self._producer = producer
        self._wait = wait
        self._unanswered: Delivery | None = None
        self.topic = producer.topic
        self.prepare = producer.check
        self.partitions = producer.partitions
        self.failed = producer.renew

    def send(self, held: Held[Any], record: OutgoingRecord) -> Steps[Answer | TooLarge]:
        """A success is what the delivery report says, never less.

        Waits in the producer's poll, where the answer comes (the consumer's costs up to a second).
        """
        delivery, answered = self._producer.send(record), False
        try:
            came = yield from self._wait.wait_for(lambda: delivery.done, held, self._producer.poll)
            if not came:
                # Its message is another's now, or we stop; the letter may be there all the same.
                # After a revoke the report is on its way, as a rule: a second is enough.
                if not self._wait.is_ours(held):
                    self._producer.poll(STOP_GRACE_S)
                came = delivery.succeeded
            # Where the partition has come back to us, the message comes again too, and it is then
            # that its letter is told.
            answered = came and not self._wait.has_come_back(held)
        finally:
            if not answered:
                self._unanswered = delivery
        if not answered:
            return Abandoned()
        return Acknowledged() if delivery.succeeded else unsent(delivery)

    def listen(self) -> None:
        self._producer.poll(0)
        # Told from here on, it would be taken for a letter of what is attempted meanwhile.
        self._unanswered = None

    def close(self) -> bool:
        self._producer.renew()
        return self._unanswered is not None and self._unanswered.succeeded


def unsent(delivery: Delivery) -> NotSent | TooLarge:
    """Why this one was not acknowledged."""
    if not delivery.done or delivery.error is None:
        return NotSent("no delivery report came")
    text = error_text(delivery.error)
    return TooLarge(text) if delivery.too_large else NotSent(text)


def error_text(error: KafkaError) -> str:
    """Kafka's error, for a person."""
    return f"{error.name()}: {error.str()}"
