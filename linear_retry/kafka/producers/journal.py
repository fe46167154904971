"""The non-blocking producer, for the journal's entries and answers to operators."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from threading import Thread
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from linear_retry.kafka.consumer.settings import Config
from linear_retry.kafka.producers.acknowledged import TOO_LARGE, ProducerHandle, produce
from linear_retry.kafka.quiet import free_in_thread
from linear_retry.records.record import OutgoingRecord

_RENEW_EVERY_S = 30.0
_DEFAULTS: dict[str, Any] = {
    # These bound the memory while the brokers accept nothing.
    "queue.buffering.max.messages": 1_000,
    "queue.buffering.max.kbytes": 4_096,
    # Long enough for a broker's restart; what waits for longer is dropped and counted.
    "message.timeout.ms": 60_000,
    # By then a killed member's last entries have been sent.
    "linger.ms": 5,
    # One request at a time, so retries stay in order. Idempotence would do that too, but such a
    # producer can fail for good.
    "max.in.flight.requests.per.connection": 1,
    "partitioner": "murmur2_random",
    # Else a missing topic would be created with a retention that nobody chose.
    "allow.auto.create.topics": False,
}


def journal_config(connection: Config, overlay: Config) -> dict[str, Any]:
    """Returns the journal producer's keys: the consumer's brokers and security, then `overlay`."""
    # Without reports, written records would be kept in memory for ever.
    return {**connection, **_DEFAULTS, **overlay, "delivery.report.only.error": False}


class JournalProducer(ProducerHandle):
    """A confluent_kafka `Producer` that waits only in `flush`, and counts what it drops.

    Called by one thread. Reports are processed when the next record is sent; librdkafka's own
    thread sends. The producer's queue bounds what waits.

    A producer whose deliveries fail is replaced, at most every 30 s, by one that takes over what
    still waits: it may have lost all brokers for ever, without an error (librdkafka #5301), or take
    a topic for missing that exists by now. That may write a record twice.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        now_s: Callable[[], float],
        producer: Callable[..., Any] = Producer,
    ) -> None:
        """Connects at `check`, or at the first `send`."""
        super().__init__(config, producer)
        self.dropped = 0
        self.trouble = ""
        """The last error since a record was written."""
        self._now_s = now_s
        self._generation = 0
        self._sent = 0
        self._waiting: dict[int, OutgoingRecord] = {}
        self._failing = False
        self._renew_at_s = -math.inf

    def send(self, record: OutgoingRecord) -> None:
        """Hands over one record, and processes reports. Never waits, never raises."""
        if self._producer is not None:
            self._producer.poll(0)
            if self._failing and self._now_s() >= self._renew_at_s:
                self._renew()
        self._sent += 1
        self._waiting[self._sent] = record
        self._produce(self._sent, record)

    def flush(self, timeout_s: float) -> None:
        """Waits up to `timeout_s` for records in flight; drops the rest, and the producer."""
        if self._producer is not None:
            self._producer.flush(timeout_s)
            self._discard().join(timeout_s)
        if self._waiting and not self.trouble:
            self.trouble = "they still waited at the end"
        self.dropped += len(self._waiting)
        self._waiting.clear()

    def _produce(self, number: int, record: OutgoingRecord) -> None:
        report = partial(self._report, self._generation, number)
        try:
            produce(self._handle(), record, report)
        except BufferError:
            # The reason why the queue is full tells more than that it is.
            self._drop(number, self.trouble or "its queue is full")
        except KafkaException as error:
            self._fail(number, error.args[0])

    def _report(
        self, generation: int, number: int, error: KafkaError | None, _: Message | None = None
    ) -> None:
        if generation != self._generation:
            return  # its successor has taken it over
        if error is None:
            self._waiting.pop(number, None)
            self.trouble = ""
        else:
            self._fail(number, error)

    def _fail(self, number: int, error: KafkaError) -> None:
        if error.code() not in TOO_LARGE:
            self._failing = True
        self._drop(number, error.str())

    def _drop(self, number: int, why: str) -> None:
        if self._waiting.pop(number, None) is not None:
            self.dropped += 1
        self.trouble = why

    def _renew(self) -> None:
        self._renew_at_s = self._now_s() + _RENEW_EVERY_S
        self._failing = False
        self._discard()
        for number, record in list(self._waiting.items()):
            self._produce(number, record)

    def _discard(self) -> Thread:
        """Drops the current producer, with its stale view of brokers and topics."""
        self._generation += 1
        self._producer.purge(blocking=False)
        self._producer.poll(0)
        last = [self._producer]
        self._producer = None
        return free_in_thread(last, "journal")

    def _on_error(self, error: KafkaError) -> None:
        self.trouble = error.str()
