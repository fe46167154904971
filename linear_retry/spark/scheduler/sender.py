"""Sends messages at their times, from a task of Spark."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from linear_retry.kafka import KafkaError
from linear_retry.kafka.producers.acknowledged import Delivery
from linear_retry.records.record import OutgoingRecord
from linear_retry.scheduler.contract import refuse
from linear_retry.scheduler.letters import DRAINED, dead_letter, smaller_letters
from linear_retry.spark.scheduler.held import Held
from linear_retry.spark.scheduler.producer import Lane, Letter, TaskProducer
from linear_retry.store import header_bytes
from linear_retry.store.sender.batch import OF_THE_RECORD, error_text, reason_of

_REFUSED = OF_THE_RECORD | {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.POLICY_VIOLATION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}
_BEHIND = "its partition has not acknowledged an earlier one"


@dataclass(frozen=True, slots=True)
class Targets:
    """Where a task sends to: a cluster's librdkafka keys, and the topic of dead letters."""

    config: Mapping[str, Any]
    intake: str
    dead_letters: str


@dataclass(frozen=True, slots=True)
class Undelivered:
    """A message that is to be sent again; with a `reason`, its dead letter is.

    Until then nothing else may be sent to its `lane`; None: it holds nothing back.
    """

    message: Held
    lane: Lane | None
    problem: str


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of messages.

    `problem` is the first of what was not sent, with its topic and the error.
    """

    messages: int
    letters: int
    undelivered: tuple[Undelivered, ...]
    problem: str | None = None


class Sender:
    """Sends the messages of one task of a micro-batch, with one producer."""

    def __init__(
        self,
        targets: Targets,
        producer: Callable[[Mapping[str, Any]], TaskProducer] = TaskProducer,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """The producer is made at its first use: a task may have nothing to send."""
        self._targets = targets
        self._make = producer
        self._now_s = now_s
        self._made: TaskProducer | None = None

    def send(self, messages: Iterable[Held], waiting: Collection[Lane] = ()) -> Sent:
        """Sends messages, which are in the order of their due times, none before its own.

        What its destination refuses is dead-lettered. What is not acknowledged in time is
        `undelivered`, and so is what goes to a lane that is `waiting`. Raises `BrokerError` if no
        broker answers.
        """
        dead, undelivered = list[Held](), list[Undelivered]()
        begun = list[tuple[Held, OutgoingRecord, Delivery]]()
        for message in messages:
            if message.reason is not None:
                dead.append(message)
            elif self._producer.partitions(message.topic) is None:
                dead.append(_dead(message, "unknown-topic", _not_there(message.topic)))
            elif self._has_to_wait(record := self._outgoing(message), waiting):
                undelivered.append(self._undelivered(message, record, _BEHIND))
            else:
                self._wait_until(message.due_ms / 1000)
                begun.append((message, record, self._producer.begin(record)))
        errors = self._producer.finish([(record, delivery) for _, record, delivery in begun])
        for (message, record, _), error in zip(begun, errors, strict=True):
            if error is not None and error.code() in _REFUSED:
                dead.append(_dead(message, reason_of(error), error_text(error)))
            elif error is not None:
                undelivered.append(self._undelivered(message, record, error_text(error)))
        unsent = self._send_letters(dead, waiting)
        problems = [each.problem for each in unsent]
        problems += [f"{each.topic or 'no topic'}: {each.error}" for each in dead]
        problems += [each.problem for each in undelivered]
        return Sent(
            sum(error is None for error in errors),
            len(dead) - len(unsent),
            (*undelivered, *unsent),
            problems[0] if problems else None,
        )

    def _send_letters(self, dead: Sequence[Held], waiting: Collection[Lane]) -> list[Undelivered]:
        """Sends the dead letters of messages; returns those that are to be sent again.

        A letter that is refused, or not acknowledged, must not fail the task: the micro-batch would
        be repeated for ever, with all that its other tasks have sent.
        """
        topic, unsent = self._targets.dead_letters, list[Undelivered]()
        letters = list[tuple[Held, Letter]]()
        if dead and self._producer.partitions(topic) is None:
            return [Undelivered(each, None, f"{topic}: {_not_there(topic)}") for each in dead]
        for message in dead:
            letter = letter_of(message, self._targets.intake, topic)
            if self._has_to_wait(letter[0], waiting):
                unsent.append(self._undelivered(message, letter[0], _BEHIND))
            else:
                letters.append((message, letter))
        errors = self._producer.deliver_letters([letter for _, letter in letters])
        for (message, (record, _)), error in zip(letters, errors, strict=True):
            if error is not None and error.code() in _REFUSED:
                unsent.append(Undelivered(message, None, f"{topic}: {error_text(error)}"))
            elif error is not None:
                unsent.append(self._undelivered(message, record, error_text(error)))
        return unsent

    def _outgoing(self, message: Held) -> OutgoingRecord:
        """Without a partition, for by key, where the topic does not have the one that is asked."""
        headers = header_bytes.read(message.headers)
        number, count = message.to_partition, self._producer.partitions(message.topic)
        if number is not None and (count is None or number >= count):
            number = None
        return OutgoingRecord(message.topic, message.key, message.value, headers, number)

    def _has_to_wait(self, record: OutgoingRecord, waiting: Collection[Lane]) -> bool:
        return bool(waiting) and self._producer.lane(record) in waiting

    def _undelivered(self, message: Held, record: OutgoingRecord, error: str) -> Undelivered:
        return Undelivered(message, self._producer.lane(record), f"{record.topic}: {error}")

    def _wait_until(self, due_s: float) -> None:
        while (left_s := due_s - self._now_s()) > 0:
            self._producer.poll(left_s)

    @property
    def _producer(self) -> TaskProducer:
        if self._made is None:
            self._made = self._make(self._targets.config)
        return self._made


def letter_of(message: Held, intake: str, to: str) -> Letter:
    """Returns the dead letter of a message that was read from `intake`, for the topic `to`."""
    reason, error, record = message.reason or "", message.error, message.record(intake)
    due_ms = message.due_ms if reason == DRAINED else None
    letter = dead_letter(refuse(record, reason, error or ""), to, reason, error, due_ms)
    return letter, smaller_letters(letter, record)


def _dead(message: Held, reason: str, error: str) -> Held:
    """Returns it as one that is dead from now on, though its letter may have to wait."""
    return message._replace(reason=reason, error=error)


def _not_there(topic: str) -> str:
    return f"topic {topic!r} does not exist, or this user may not describe it"
