"""The partitions of a consumer, as what the engine's decisions take effect on."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import assert_never

from linear_retry.consumer.dead_letters.publisher import DeadLetterPublisher, Steps, write
from linear_retry.consumer.operations.operator_actions import OperatorActions
from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.commits import OffsetCommits
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.offsets import Offsets
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.events import Event
from linear_retry.kafka import Message
from linear_retry.records.dead_letter import DeadLetter
from linear_retry.retry.decision import GIVEN_UP, RetrySettings
from linear_retry.retry.engine import Abandoned, Acknowledged, Answer, Engine, NotSent
from linear_retry.retry.held import Held
from linear_retry.scope import Place


@dataclass(frozen=True, slots=True)
class Partitions:
    """The owners of what is known of a consumer's partitions."""

    assignment: Assignment
    offsets: Offsets
    read_ahead: ReadAhead
    flow_control: FlowControl
    commits: OffsetCommits


@dataclass(frozen=True, slots=True)
class OutstandingDelivery:
    """A dead letter on its way. `steps` asks for a poll wherever it yields; True: at once."""

    held: Held[Message]
    letter: DeadLetter
    steps: Steps[Answer]


class ConsumerTarget:
    """Pauses, resumes, stores and commits for the engine, and sends one dead letter at a time.

    While a dead letter is on its way (`delivery`) the loop polls, takes the next step of the
    delivery, and hands nothing over.
    """

    undone = "nothing is committed past this message"

    def __init__(
        self,
        group_id: str,
        partitions: Partitions,
        publisher: DeadLetterPublisher | None,
        operator_actions: OperatorActions,
        settings: RetrySettings,
        emit: Callable[[Event], None],
    ) -> None:
        """`publisher` may be None only where no choice needs dead letters."""
        self.group_id = group_id
        self.partitions = partitions
        self.emit = emit
        self._assignment = partitions.assignment
        self._offsets = partitions.offsets
        self._read_ahead = partitions.read_ahead
        self._publisher = publisher
        self._operator_actions = operator_actions
        self._commits = partitions.commits
        self.delivery: OutstandingDelivery | None = None
        self.pause = partitions.flow_control.pause
        self.resume = partitions.flow_control.resume
        self.commit = self._commits.send
        self.engine: Engine[Message] = Engine(
            settings,
            operator_actions.circuits,
            operator_actions.consecutive,
            emit,
            operator_actions.clock,
            self,
        )

    def done(self, held: Held[Message]) -> None:
        self._offsets.done({held.partition: held.offset + 1})

    def letter(self, held: Held[Message], reason: str) -> DeadLetter:
        return write(held, reason, self.group_id)

    def publish(self, held: Held[Message], reason: str) -> None:
        self.deliver(replace(held, letter=self.letter(held, reason)))

    def place(self, held: Held[Message]) -> str:
        return str(Place(*held.partition, held.offset))

    def tick(self) -> None:
        """Commit, and have the idle producer report what has piled up."""
        self._commits.send()
        if self._publisher is not None:
            self._publisher.poll()

    def deliver(self, held: Held[Message]) -> None:
        """Begin to send its letter. The offset is stored after the acknowledgement only."""
        publisher, letter = self._publisher, held.letter
        if publisher is None or letter is None:
            raise AssertionError("no dead-letter topic: a bug; please report it")
        if self._operator_actions.requests.due_at_s < math.inf:
            self._operator_actions.begin(held)
        self.delivery = OutstandingDelivery(held, letter, publisher.send(held, letter))

    def take_step(self) -> bool:
        """Wait for the delivery, for a moment. Whether the consumer is to be polled now."""
        delivery = self.delivery
        if delivery is None:
            return False
        try:
            return next(delivery.steps)
        except StopIteration as ended:
            self.delivery = None
            self._conclude(delivery, ended.value)
            return False
        except BaseException:
            self.delivery = None
            raise

    def abandon(self) -> None:
        """What polling raised leaves the delivery behind: its message comes again."""
        delivery, self.delivery = self.delivery, None
        if delivery is not None:
            delivery.steps.close()

    def _conclude(self, delivery: OutstandingDelivery, answer: Answer) -> None:
        held, letter = delivery.held, delivery.letter
        topic = self._publisher.topic if self._publisher else ""
        is_ours = self._assignment.epochs.get(held.partition) == held.epoch
        match answer:
            case Acknowledged():
                if is_ours:
                    # A rebalance of others, while it was awaited, had everything fetched anew.
                    self._read_ahead.drop_through(held.partition, held.offset)
                self.engine.acknowledged(held, letter, topic, finishes=is_ours)
                if letter.reason == GIVEN_UP:
                    self._operator_actions.dead_lettered(held)
            case NotSent(error):
                if is_ours:
                    self.engine.not_sent(held, topic, error)
            case Abandoned():
                # Whoever goes on, we or another, reads the message again.
                self._read_ahead.invalidate()
            case _:
                assert_never(answer)
