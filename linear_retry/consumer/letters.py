"""How does a message become an acknowledged dead letter, while the member stays in its group?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from linear_retry.consumer.circuits import Held
from linear_retry.consumer.dead_letters import Oversized
from linear_retry.consumer.parts import Parts
from linear_retry.dead_letter import DeadLetter, Death, dead_letter
from linear_retry.error_text import describe
from linear_retry.kafka import KafkaException
from linear_retry.kafka.dead_letter_producer import DeadLetterProducer, Sending
from linear_retry.kafka.messages import read
from linear_retry.oversized import forms

STOP_GRACE_S = 1.0
_RESEND_DELAYS_S = (1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The dead-letter topic has it."""


@dataclass(frozen=True, slots=True)
class NotSent:
    """It is not there, or not surely."""

    error: str


@dataclass(frozen=True, slots=True)
class Abandoned:
    """Waited for no longer: the partition is not ours any more, or the consumer stops."""


Answer: TypeAlias = Acknowledged | NotSent | Abandoned


def resend_delay_s(sends: int) -> float:
    """How long to wait after the sending has failed `sends` times: 1, 2, 5, 10, 10 ... seconds."""
    return _RESEND_DELAYS_S[min(sends, len(_RESEND_DELAYS_S)) - 1]


def write(held: Held, reason: str, group_id: str, strategy: str) -> DeadLetter:
    """The letter for a message that has failed for the last time."""
    death = Death(
        group_id=group_id,
        reason=reason,
        failures=held.failures,
        first_failure_ms=held.first_failure_ms,
        last_failure_ms=held.last_failure_ms,
        strategy=strategy,
        error=None if held.error is None else describe(held.error),
    )
    return dead_letter(read(held.message), death)


class Letters:
    """Sends this consumer's dead letters, one at a time."""

    def __init__(
        self,
        parts: Parts,
        producer: DeadLetterProducer,
        oversized: Oversized,
        *,
        answer_within_s: float,
        read_along: Callable[[], None],
        stopping: Callable[[], bool],
    ) -> None:
        """`read_along` polls the consumer without waiting; what comes joins the read-ahead.

        librdkafka answers within its own `message.timeout.ms`; `answer_within_s` is for when it
        does not answer at all. Once `stopping()`, an answer is waited for a second at most.
        """
        self._parts = parts
        self._producer = producer
        self._oversized = oversized
        self._answer_within_s = answer_within_s
        self._read_along = read_along
        self._stopping = stopping
        self._partitions: int | None = None

    @property
    def topic(self) -> str:
        return self._producer.topic

    def prepare(self, partitions: int) -> None:
        """The dead-letter topic has so many partitions. Raises `ConfigurationError`."""
        self._partitions = partitions
        self._producer.check()

    def send(self, held: Held, letter: DeadLetter) -> Answer:
        """Send and wait for the answer. A success is what the delivery report says, never less.

        Waits in the producer's poll, where the answer comes (the consumer's costs up to a second),
        and looks after the consumer now and then. Raises what polling raises.
        """
        if not self._topic_is_there():
            return NotSent(f"the topic {self.topic} does not exist; create it")
        answer: Answer = NotSent("no form of it was small enough")
        references = self._oversized == "reference"
        for form in forms(letter, read(held.message), references=references):
            sending = self._hand_over(form)
            if not self._await(sending, held):
                return Abandoned()
            if not sending.done:
                answer = NotSent("no delivery report came")
                break
            if sending.error is None:
                return Acknowledged()
            answer = NotSent(f"{sending.error.name()}: {sending.error.str()}")
            if not sending.too_large:
                break
        self._partitions = None  # asked anew before the next sending: it may be another topic then
        self._producer.renew()
        return answer

    def listen(self) -> None:
        """Let the producer tell what has piled up: errors, and late answers that nobody awaits."""
        self._producer.poll(0)

    def close(self) -> None:
        """Forget what is not acknowledged: its offset is not stored, it will be sent again."""
        self._producer.renew()

    # -- inside ----------------------------------------------------------------------------

    def _topic_is_there(self) -> bool:
        """After a failure: look again, with the consumer's handle, which creates no topic."""
        if self._partitions is None:
            try:
                counts = self._parts.client.partition_counts(1.0, self.topic)
            except KafkaException:
                # Not known; the sending itself will say what is wrong.
                return True
            self._partitions = counts.get(self.topic)
            return self._partitions is not None
        return True

    def _hand_over(self, letter: DeadLetter) -> Sending:
        partition = letter.original_partition
        return self._producer.send(
            key=letter.key,
            value=letter.value,
            headers=letter.headers(),
            partition=partition if partition < (self._partitions or 0) else None,
        )

    def _await(self, sending: Sending, held: Held) -> bool:
        """False: not waited for any longer."""
        parts = self._parts
        stop_by_s = float("inf")
        give_up_at_s = parts.clock.now_s() + self._answer_within_s
        while not sending.done and parts.clock.now_s() < give_up_at_s:
            if self._stopping():
                stop_by_s = min(stop_by_s, parts.clock.now_s() + STOP_GRACE_S)
            if parts.clock.now_s() >= stop_by_s:
                return False
            self._producer.poll(min(parts.reading.touch_s, 0.25))
            if not sending.done and parts.clock.now_s() >= parts.reading.deadline_s:
                self._read_along()
            if parts.ownership.epoch_of(held.partition) != held.epoch:
                return sending.done
        return True
