"""The partitions of a consumer, as the target of the engine's decisions."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import assert_never

from linear_retry.consumer.dead_letters.publisher import DeadLetterPublisher, Steps
from linear_retry.consumer.dead_letters.recovery import RecoveryCall
from linear_retry.consumer.operations.operator_actions import OperatorActions
from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.batches import Batches
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.offsets import OffsetCommits, Offsets
from linear_retry.consumer.partitions.read_ahead import ReadAhead, next_offsets
from linear_retry.events import Event
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import read
from linear_retry.records.dead_letter import DeadLetter
from linear_retry.records.lineage import Line, Lineage, lineage_of
from linear_retry.retry.decision import GIVEN_UP
from linear_retry.retry.engine import Abandoned, Acknowledged, Answer, Engine, NotSent
from linear_retry.retry.held import RECOVERY, Held, dead_letter
from linear_retry.retry.policy import RetrySettings
from linear_retry.scope import Place, Scope


@dataclass(frozen=True, slots=True)
class Partitions:
    """The owners of the state of a consumer's partitions."""

    assignment: Assignment
    offsets: Offsets
    read_ahead: ReadAhead
    flow_control: FlowControl
    commits: OffsetCommits


class ConsumerTarget:
    """Pauses, resumes, stores and commits for the engine, and sends one dead letter at a time.

    The `delivery` of a dead letter is left here for the loop, which drives it step by step, polls
    where it yields, and hands over no messages meanwhile. `recovering` is the message that is with
    the user's function, which may take longer than the group allows.
    """

    def __init__(
        self,
        line: Line,
        partitions: Partitions,
        publisher: DeadLetterPublisher | None,
        recovery: RecoveryCall | None,
        operator_actions: OperatorActions,
        settings: RetrySettings,
        emit: Callable[[Event], None],
    ) -> None:
        """`publisher` and `recovery` may be None only if no choice needs them."""
        self.line = line
        self.partitions = partitions
        self.emit = emit
        self._assignment = partitions.assignment
        self._offsets = partitions.offsets
        self._read_ahead = partitions.read_ahead
        self._publisher = publisher
        self._recovery = recovery
        self._operator_actions = operator_actions
        self._commits = partitions.commits
        self.batches = Batches(partitions.assignment, partitions.read_ahead)
        self.delivery: Steps[None] | None = None
        self.recovering: Held[Message] | None = None
        self.resume = partitions.flow_control.resume
        self.engine: Engine[Message] = Engine(
            settings,
            operator_actions.circuits,
            operator_actions.consecutive,
            emit,
            operator_actions.clock,
            self,
        )

    def pause(self, scope: Scope) -> None:
        """Pauses, then commits what is done, so that a kill during a long wait repeats less.

        In this order: pause and seek must not depend on a commit, which may fail.
        """
        self.partitions.flow_control.pause(scope)
        self._commits.send()

    def done(self, held: Held[Message]) -> None:
        self._offsets.done(next_offsets((held.message, *held.others)))

    def take_apart(self, held: Held[Message]) -> None:
        # What a circuit pauses is fetched again: only the held message stays in memory.
        is_read_again = self.partitions.flow_control.circuits.stops(held.partition)
        self.batches.take_apart(held, keep=not is_read_again)

    def lineage(self, held: Held[Message]) -> Lineage:
        return lineage_of(read(held.message), self.line)

    def letter(self, held: Held[Message], reason: str) -> DeadLetter:
        return dead_letter(read(held.message), held, reason, self.line)

    def publish(self, held: Held[Message], reason: str) -> None:
        self.deliver(replace(held, letter=self.letter(held, reason)))

    def recover(self, held: Held[Message]) -> None:
        letter = self.letter(held, "exhausted")
        self.deliver(replace(held, letter=letter, destination=RECOVERY))

    def send_back(self, held: Held[Message]) -> None:
        """Starts to return it to where it came from first, on its way through the retry topics."""
        record = read(held.message)
        lineage = lineage_of(record, self.line)
        returned = replace(held, destination=lineage.destination, hop=lineage.hop)
        letter = dead_letter(record, returned, "transient", self.line)
        self.deliver(replace(returned, letter=letter))

    def place(self, held: Held[Message]) -> str:
        return str(Place(*held.partition, held.offset))

    def tick(self) -> None:
        """Commits, and polls the idle producer for its reports."""
        self._commits.send()
        if self._publisher is not None:
            self._publisher.poll()

    def deliver(self, held: Held[Message]) -> None:
        """Starts to send its letter. The offset is stored only after the acknowledgement."""
        is_recovery = held.destination == RECOVERY
        sender, letter = self._recovery if is_recovery else self._publisher, held.letter
        if sender is None or letter is None:
            raise AssertionError("nowhere to send it: a bug; please report it")
        if self._operator_actions.requests.due_at_s < math.inf:
            self._operator_actions.begin(held)
        # It leaves the line alone: the rest of its batch is not done with it.
        held = replace(held, others=())
        sending = sender.send(held, letter, partial(read, held.message))
        self.delivery = self._deliver(held, letter, sending)

    def _deliver(
        self, held: Held[Message], letter: DeadLetter, sending: Steps[Answer]
    ) -> Steps[None]:
        self._read_ahead.in_hand = held.partition, held.offset
        self.recovering = held if held.destination == RECOVERY else None
        try:
            answer = yield from sending
        finally:
            self._read_ahead.in_hand = self.recovering = None
        self._conclude(held, letter, answer)

    def _conclude(self, held: Held[Message], letter: DeadLetter, answer: Answer) -> None:
        is_ours = self._assignment.epochs.get(held.partition) == held.epoch
        match answer:
            case Acknowledged():
                if is_ours:
                    # A rebalance during the wait may have caused everything to be fetched again.
                    self._read_ahead.drop_through(held.partition, held.offset)
                self.engine.acknowledged(held, letter, finishes=is_ours)
                if letter.reason == GIVEN_UP:
                    self._operator_actions.dead_lettered(held)
            case NotSent(error):
                if is_ours:
                    self.engine.not_sent(held, error)
            case Abandoned():
                # The message is read again, by us or by another member.
                self._read_ahead.invalidate()
            case _:
                assert_never(answer)
