"""Sends a consumer's dead letters, and waits for each; or hands messages to a function."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from linear_retry.consumer.settings.dead_letters import Oversized
from linear_retry.consumer.settings.line import Recovery
from linear_retry.errors import UsageError
from linear_retry.events import Listener
from linear_retry.kafka import KafkaError, KafkaException, Message
from linear_retry.kafka.producers.acknowledged import AcknowledgedProducer, Delivery
from linear_retry.kafka.producers.transactional import Step, Unfinished
from linear_retry.records.dead_letter import DeadLetter, smaller_forms
from linear_retry.records.record import OutgoingRecord, Record
from linear_retry.records.text import brief
from linear_retry.retry.callables import UndoneError, check_result
from linear_retry.retry.case import Held, Leaving, T, ToDeadLetters, destination_of, left_line
from linear_retry.retry.clock import Clock
from linear_retry.retry.engine import Abandoned, Acknowledged, Answer, NotSent
from linear_retry.retry.failed_attempt import release
from linear_retry.scope import Partition, Place

Steps: TypeAlias = Generator[bool, None, T]
"""A delivery in steps: at each yield the loop polls the consumer, at once if it yields True."""

STOP_GRACE_S = 1.0
_LONGEST_WAIT_S = 0.25  # a stop is noticed between two calls into librdkafka, not inside one


class Stop(Protocol):
    """Says whether the consumer was asked to stop (`asked`) or `interrupted`."""

    @property
    def asked(self) -> bool: ...
    @property
    def interrupted(self) -> bool: ...


class AckWait:
    """Waits for the outcome of one message's dead letter.

    Its generators yield between two waits. The loop, which drives them, then polls the consumer
    and adds what arrives to the read-ahead. True: it polls at once; False: only if a poll is due.
    """

    def __init__(
        self,
        clock: Clock,
        epochs: Mapping[Partition, int],
        stop: Stop,
        *,
        answer_within_s: float,
    ) -> None:
        """`epochs` has the assigned partitions, each with the epoch of its assignment.

        librdkafka answers within its own timeouts; `answer_within_s` is for when it does not. After
        a stop was requested, an answer is awaited for one more second: not to wait at all would
        send a second letter for each one in flight.
        """
        self._clock = clock
        self._epochs = epochs
        self._stop = stop
        self._answer_within_s = answer_within_s

    @property
    def is_stopping(self) -> bool:
        """Whether a stop or an interrupt forbids further waiting."""
        return self._stop.asked or self._stop.interrupted

    def wait_for(
        self,
        done: Callable[[], bool],
        held: Held[Any],
        wait: Callable[[float], object],
        *,
        within_s: float | None = None,
        polls_at_once: bool = False,
    ) -> Steps[bool]:
        """Calls `wait` with some seconds until `done()`, or until `within_s` (at least) has passed.

        Returns False if the wait was abandoned, as the partition was revoked or the consumer
        stops.
        """
        clock, stop_by_s = self._clock, float("inf")
        give_up_at_s = clock.now_s() + (self._answer_within_s if within_s is None else within_s)
        while not done() and clock.now_s() < give_up_at_s:
            if self.is_stopping:
                stop_by_s = min(stop_by_s, clock.now_s() + STOP_GRACE_S)
            if clock.now_s() >= stop_by_s:
                return False
            wait(_LONGEST_WAIT_S)
            if not done():
                yield polls_at_once
            if not self.is_ours(held):
                return done()
        return True

    def retry_until(
        self, call: Callable[[float], Step], within_s: float, *, grace_s: float = STOP_GRACE_S
    ) -> Step:
        """Repeats `call` until it is answered or `within_s` has passed; does not poll the consumer.

        `call` takes some seconds. After a stop was requested, it is repeated for `grace_s` at most.
        """
        clock, stop_by_s = self._clock, float("inf")
        give_up_at_s = clock.now_s() + within_s
        while isinstance(step := call(_LONGEST_WAIT_S), Unfinished):
            if self.is_stopping:
                stop_by_s = min(stop_by_s, clock.now_s() + grace_s)
            if clock.now_s() >= min(give_up_at_s, stop_by_s):
                break
        return step

    def is_ours(self, held: Held[Any]) -> bool:
        """Whether its partition has been ours without a break. A stream's always is."""
        return self._epochs.get(held.partition) == held.epoch

    def has_come_back(self, held: Held[Any]) -> bool:
        """Whether its partition was lost and reassigned to us: its message is delivered again."""
        return self._epochs.get(held.partition) not in (None, held.epoch)


@dataclass(frozen=True, slots=True)
class TooLarge:
    """The letter was refused as too large: a smaller form may pass."""

    error: str


class DeadLetterDelivery(Protocol):
    """Delivers one form of a letter: alone, or in a transaction with its source offset."""

    topic: str

    def prepare(self) -> None:
        """Prepares it before the group is joined. Raises `ConfigurationError` and `BrokerError`."""

    def partitions(self, topic: str, timeout_s: float) -> int | None:
        """The number of the topic's partitions; None if it is missing. Raises `KafkaException`."""

    def send(self, held: Held[Any], record: OutgoingRecord) -> Steps[Answer | TooLarge]:
        """Sends it and waits for the answer, in the steps of `AckWait`."""

    def failed(self) -> None:
        """Notes that no form of a letter was sent: the next delivery starts over."""

    def poll(self) -> None:
        """Lets the producer report pending errors and late answers."""

    def close(self) -> bool:
        """Drops unacknowledged letters. True: the last was acknowledged, but too late."""


class DeadLetterPublisher:
    """Sends the dead letters of a consumer, or of a stream, one at a time."""

    def __init__(
        self,
        delivery: DeadLetterDelivery,
        wait: AckWait,
        oversized: Oversized,
        emit: Listener,
        retry_topics: Sequence[str] = (),
    ) -> None:
        """Letters go to the delivery's topic, and what is retried to these."""
        self._delivery = delivery
        self._wait = wait
        self._oversized = oversized
        self._emit = emit
        self._partitions: dict[str, int | None] = {}
        self._unanswered: Leaving[Any] | None = None
        self.topic = delivery.topic
        self.topics = (delivery.topic, *retry_topics)
        self.prepare = delivery.prepare
        self.poll = delivery.poll

    def partitions(self, topic: str, timeout_s: float) -> int | None:
        """Asks the dead letters' cluster, as their sender, for the topic's partitions.

        None: the topic is missing. Raises `KafkaException` if there is no answer.
        """
        found = self._partitions[topic] = self._delivery.partitions(topic, timeout_s)
        return found

    def send(self, leaving: Leaving[Any], read: Callable[[], Record]) -> Steps[Answer]:
        """Sends the first form that is not too large, and waits in steps (`AckWait`).

        `read` returns the record that failed, for a letter that only refers to it.
        """
        if not self._wait.is_ours(leaving.held):
            return Abandoned()  # marked lost since it failed: another member may own the message
        topic = destination_of(leaving.route)
        if not self._is_there(topic):
            return NotSent(
                f"the topic {topic} does not exist, or this user may not DESCRIBE it; create "
                "it, or grant the permission"
            )
        self._unanswered = leaving
        answer = yield from self._send_some_form(leaving, read)
        if not isinstance(answer, Abandoned):
            self._unanswered = None
        if isinstance(answer, NotSent):
            self._partitions.clear()  # ask again next time: it may be recreated
            self._delivery.failed()
        return answer

    def close(self) -> None:
        """Drops unacknowledged letters: their offsets are not stored, so they will be sent again.

        If the last one was acknowledged after the wait for it ended, its event is emitted now.
        """
        if self._delivery.close() and self._unanswered is not None:
            self._emit(left_line(self._unanswered)[0])

    # -- inside ----------------------------------------------------------------------------

    def _send_some_form(self, leaving: Leaving[Any], read: Callable[[], Record]) -> Steps[Answer]:
        """Sends the first form that is not too large, and returns its answer."""
        sent = yield from self._send_form(leaving, leaving.letter)
        if isinstance(sent, TooLarge):
            # A handler would take a reference in a retry topic for the message itself.
            stays = isinstance(leaving.route, ToDeadLetters)
            record = read() if self._oversized == "reference" and stays else None
            for form in smaller_forms(leaving.letter, record):
                sent = yield from self._send_form(leaving, form)
                if not isinstance(sent, TooLarge):
                    break
        return _not_sent(leaving, sent) if isinstance(sent, TooLarge) else sent

    def _send_form(self, leaving: Leaving[Any], form: DeadLetter) -> Steps[Answer | TooLarge]:
        """Sends to the source's partition number if the topic has it, else by key."""
        topic = destination_of(leaving.route)
        number, partitions = form.original_partition, self._partitions.get(topic) or 0
        partition = number if number < partitions else None
        record = OutgoingRecord(topic, form.key, form.value, form.headers(), partition)
        return self._delivery.send(leaving.held, record)

    def _is_there(self, topic: str) -> bool:
        """Checks after a failure that the topic still exists; never creates it."""
        try:
            known = self._partitions.get(topic) is not None
            return known or self.partitions(topic, 1.0) is not None
        except KafkaException:
            return True  # unknown; the delivery itself will report what is wrong


def answer_of(delivery: Delivery) -> Acknowledged | NotSent | TooLarge:
    """Converts a delivery report, or its absence, to an answer. Only a report means success."""
    if not delivery.done:
        return NotSent("no delivery report came")
    if delivery.error is None:
        return Acknowledged()
    text = error_text(delivery.error)
    return TooLarge(text) if delivery.too_large else NotSent(text)


def error_text(error: KafkaError) -> str:
    """Formats Kafka's error for people."""
    return f"{error.name()}: {error.str()}"


def _not_sent(leaving: Leaving[Any], refused: TooLarge) -> NotSent:
    """Says more of what leaves for a retry topic: a dead letter has `oversized`."""
    if isinstance(leaving.route, ToDeadLetters):
        return NotSent(refused.error)
    return NotSent(
        f"{refused.error}: with its headers it does not fit into {destination_of(leaving.route)}; "
        "raise that topic's max.message.bytes, and it is sent, or give it up"
    )


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


class RecoveryCall:
    """Calls the user's function, in the steps of a delivery: a return is the acknowledgement."""

    def __init__(self, recovery: Recovery, epochs: Mapping[Partition, int]) -> None:
        """`epochs` has the partitions that are ours now, each with that of its assignment."""
        self._callback = recovery.callback
        self._epochs = epochs

    def send(self, held: Held[Message], error: Exception) -> Steps[Answer]:
        """Calls it once, and has the consumer polled after that: it may have taken its time.

        Raises `UsageError` if it returns work that would not run: the message is not done.
        """
        if self._epochs.get(held.partition) != held.epoch:
            return Abandoned()
        answer: Answer = Acknowledged()
        trace = error.__traceback__
        try:
            check_result(self._callback(held.message, error))
        except UndoneError as undone:
            place = Place(*held.partition, held.offset)
            raise UsageError(
                f"{place}: Recovery callback={self._callback!r} returned {undone}"
            ) from None
        except Exception as raised:  # noqa: BLE001  (the user's: any exception means another call)
            answer = NotSent(brief(raised))
            # Else what it holds, such as a lock, lasts until the next call: where it raises the
            # error that it was given, its frames hang on that.
            release(raised)
            error.__traceback__ = trace
        yield True
        # If the partition was reassigned to us meanwhile, the message is delivered again, and said
        # to be handed over then.
        has_come_back = self._epochs.get(held.partition) not in (None, held.epoch)
        return Abandoned() if has_come_back else answer
