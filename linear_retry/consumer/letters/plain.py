"""Delivers a dead letter alone, before its source offset is committed."""

from typing import Any

from linear_retry.consumer.letters.publisher import (
    STOP_GRACE_S,
    AckWait,
    Steps,
    TooLarge,
    answer_of,
)
from linear_retry.kafka.producers.acknowledged import AcknowledgedProducer, Delivery
from linear_retry.records.record import OutgoingRecord
from linear_retry.retry.case import Held
from linear_retry.retry.engine import Abandoned, Answer


class PlainDelivery:
    """Sends the letter alone; its offset is committed after a successful delivery report."""

    def __init__(self, producer: AcknowledgedProducer, wait: AckWait) -> None:
        self._producer = producer
        self._wait = wait
        self._unanswered: Delivery | None = None
        self.topic = producer.topic
        self.prepare = producer.check
        self.partitions = producer.partitions
        self.failed = producer.renew

    def send(self, held: Held[Any], record: OutgoingRecord) -> Steps[Answer | TooLarge]:
        """Sends the letter; only its delivery report counts as success.

        Waits in the producer's poll, where the report arrives; the consumer's may take a second.
        """
        delivery, answered = self._producer.send(record), False
        try:
            came = yield from self._wait.wait_for(lambda: delivery.done, held, self._producer.poll)
            if not came:
                # The message is another member's now, or we stop; the letter may still arrive.
                # After a revoke the report is usually under way: a second is enough.
                if not self._wait.is_ours(held):
                    self._producer.poll(STOP_GRACE_S)
                came = delivery.succeeded
            # If the partition was reassigned to us, the message is delivered again, and its
            # letter is emitted then.
            answered = came and not self._wait.has_come_back(held)
        finally:
            if not answered:
                self._unanswered = delivery
        return answer_of(delivery) if answered else Abandoned()

    def poll(self) -> None:
        self._producer.poll(0)
        # Emitted later, it would look like a letter of whatever is attempted by then.
        self._unanswered = None

    def close(self) -> bool:
        self._producer.renew()
        return self._unanswered is not None and self._unanswered.succeeded
