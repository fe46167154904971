"""Sends messages at their times, from a task of Spark."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from linear_retry.errors import BrokerError
from linear_retry.kafka import KafkaError, KafkaException, Producer
from linear_retry.kafka.producers.acknowledged import (
    TOO_LARGE,
    Delivery,
    control_config,
    partitions,
    queued,
)
from linear_retry.kafka.producers.murmur2 import partition_of_key
from linear_retry.kafka.quiet import make_client, text_of
from linear_retry.records.record import OutgoingRecord
from linear_retry.scheduler.contract import refuse
from linear_retry.scheduler.letters import dead_letter
from linear_retry.spark.scheduler.held import Held
from linear_retry.store import header_bytes
from linear_retry.store.sender.batch import OF_THE_RECORD

_ANSWER_S = 10.0
_DELIVERED_S = 10.0
_SLICE_S = 0.5
_KEYS = {
    # An idempotent producer waits half a second for its id, and a task lasts little longer. One
    # request at a time keeps the order too.
    "enable.idempotence": False,
    "max.in.flight.requests.per.connection": 1,
    # A broker refuses a whole batch for its size: no topic allows less than this.
    "batch.size": 16_384,
    "linger.ms": 5,
}
_REFUSED = OF_THE_RECORD | {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.POLICY_VIOLATION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}


@dataclass(frozen=True, slots=True)
class Targets:
    """Where a task sends to: a cluster's librdkafka keys, and the topic of dead letters."""

    config: Mapping[str, Any]
    intake: str
    dead_letters: str


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of a bucket's messages; `undelivered` are to be sent again.

    `problem` is the first of what was not sent, with its topic and the error.
    """

    messages: int
    letters: int
    undelivered: tuple[Held, ...]
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _Unsent:
    """A message that was not taken: for good if there is a `reason`."""

    message: Held
    error: str
    reason: str = ""

    @property
    def text(self) -> str:
        return f"{self.message.topic or 'no topic'}: {self.error}"


class Sender:
    """One producer, connected at its first use, for one task of a micro-batch."""

    def __init__(
        self,
        targets: Targets,
        producer: Callable[..., Any] = Producer,
        now_s: Callable[[], float] = time.time,
        answer_s: float = _ANSWER_S,
    ) -> None:
        self._targets = targets
        self._make = producer
        self._now_s, self._answer_s = now_s, answer_s
        self._producer: Any = None
        self._partitions: dict[str, int | None] = {}
        self._stuck: dict[tuple[str, int | None], str] = {}

    def send(self, messages: Iterable[Held]) -> Sent:
        """Sends messages, which are in the order of their due times, none before its own.

        What its destination refuses is dead-lettered; what is not acknowledged in time is
        `undelivered`, and later messages for the same partition at once. Raises `BrokerError` if no
        broker answers, or a dead letter is not acknowledged.
        """
        self._connect()
        under_way = list[tuple[Held, Delivery]]()
        letters, undelivered = list[_Unsent](), list[_Unsent]()
        for message in messages:
            if message.reason is not None and message.error is not None:
                letters.append(_Unsent(message, message.error, message.reason))
            elif self._count_of(message.topic) is None:
                error = f"topic {message.topic!r} does not exist, or this user may not describe it"
                letters.append(_Unsent(message, error, "unknown-topic"))
            elif (stuck := self._stuck_by(message)) is not None:
                undelivered.append(_Unsent(message, stuck))
            else:
                self._wait_until(message.due_ms / 1000)
                under_way.append((message, queued(self._producer, self._outgoing(message))))
        for each in self._failed(under_way):
            (letters if each.reason else undelivered).append(each)
        self._send_letters(letters)
        sent = sum(delivery.succeeded for _, delivery in under_way)
        problem = next((each.text for each in (*letters, *undelivered)), None)
        return Sent(sent, len(letters), tuple(each.message for each in undelivered), problem)

    def _failed(self, under_way: list[tuple[Held, Delivery]]) -> list[_Unsent]:
        self._flush()
        found = []
        for message, delivery in under_way:
            if delivery.succeeded:
                continue
            error = delivery.error or KafkaError(KafkaError._MSG_TIMED_OUT)
            text, reason = f"{error.str()} ({error.name()})", ""
            if error.code() in _REFUSED:
                reason = "too-large" if error.code() in TOO_LARGE else "refused"
            else:
                self._stuck[self._place(message)] = text
            found.append(_Unsent(message, text, reason))
        if found and len(found) == len(under_way):
            # One partition has no leader, or the cluster is gone.
            self._partitions.clear()
            self._count_of(found[0].message.topic)
        return found

    def _stuck_by(self, message: Held) -> str | None:
        """Without it, each bucket of a micro-batch would wait for a stuck partition again."""
        return self._stuck.get(self._place(message)) if self._stuck else None

    def _place(self, message: Held) -> tuple[str, int | None]:
        number, count = self._number(message), self._count_of(message.topic)
        if number is None and message.key is not None and count is not None:
            # librdkafka tells a key's partition only of what was produced, and waits for it then.
            number = partition_of_key(message.key, count)
        return message.topic, number

    def _send_letters(self, letters: list[_Unsent]) -> None:
        sent = [queued(self._producer, self._letter(each)) for each in letters]
        self._flush()
        for delivery in sent:
            if not delivery.succeeded:
                error = delivery.error or KafkaError(KafkaError._MSG_TIMED_OUT)
                raise BrokerError(
                    f"{self._targets.dead_letters}: a dead letter is not delivered: "
                    f"{error.str()}; create the topic, or let it take larger records"
                )

    def _letter(self, unsent: _Unsent) -> OutgoingRecord:
        reason, error = unsent.reason, unsent.error
        refused = refuse(unsent.message.record(self._targets.intake), reason, error)
        return dead_letter(refused, self._targets.dead_letters, reason, error)

    def _outgoing(self, message: Held) -> OutgoingRecord:
        headers = header_bytes.read(message.headers)
        number = self._number(message)
        return OutgoingRecord(message.topic, message.key, message.value, headers, number)

    def _number(self, message: Held) -> int | None:
        """None, for by key, where the topic does not have its partition."""
        number, count = message.to_partition, self._count_of(message.topic)
        return number if number is not None and count is not None and number < count else None

    def _count_of(self, topic: str) -> int | None:
        if topic not in self._partitions:
            try:
                self._partitions[topic] = partitions(self._producer, topic, self._answer_s)
            except KafkaException as error:
                raise BrokerError(f"{topic}: no broker answers: {text_of(error)}") from error
        return self._partitions[topic]

    def _wait_until(self, due_s: float) -> None:
        while (left_s := due_s - self._now_s()) > 0:
            self._producer.poll(left_s)

    def _flush(self) -> None:
        until_s = time.monotonic() + 2 * _DELIVERED_S
        while self._producer.flush(_SLICE_S) and time.monotonic() < until_s:
            pass

    def _connect(self) -> None:
        if self._producer is None:
            config = control_config(self._targets.config, _DELIVERED_S)
            self._producer = make_client(self._make, config | _KEYS)
