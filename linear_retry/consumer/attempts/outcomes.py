"""Carries out what follows an attempt: a wait, a letter on its way, or the next message."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import assert_never

from linear_retry.consumer.control.operator_actions import OperatorActions
from linear_retry.consumer.letters.publisher import DeadLetterPublisher, RecoveryCall, Steps
from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.batches import Batches
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.offsets import OffsetCommits, Offsets
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.consumer.settings.inbox import InboxPlaces, PlaceLostError
from linear_retry.errors import StoreError
from linear_retry.events import BatchTakenApart, Event
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import read
from linear_retry.records.lineage import Line
from linear_retry.records.record import Record
from linear_retry.retry.case import Failing, Held, Leaving, ToCallback
from linear_retry.retry.decision import GIVEN_UP, Block, RetrySettings, Wait
from linear_retry.retry.engine import (
    Abandoned,
    Acknowledged,
    Answer,
    Engine,
    Hold,
    NotSent,
    Reading,
    Settle,
    Step,
    Verdict,
)
from linear_retry.scope import Place, Scope


@dataclass(frozen=True, slots=True)
class Partitions:
    """The owners of the state of a consumer's partitions."""

    assignment: Assignment
    offsets: Offsets
    read_ahead: ReadAhead
    flow_control: FlowControl
    commits: OffsetCommits


class Outcomes:
    """Takes the steps that the engine answers with: pauses, resumes, stores, commits and sends.

    At most one message is `leaving`: nothing is handed over until its letter is answered.
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
        inbox: InboxPlaces | None = None,
    ) -> None:
        """`publisher` and `recovery` may be None only if no choice needs them."""
        self.line = line
        self.partitions = partitions
        self.emit = emit
        self._assignment = partitions.assignment
        self._offsets = partitions.offsets
        self._read_ahead = partitions.read_ahead
        self._flow_control = partitions.flow_control
        self._commits = partitions.commits
        self._publisher = publisher
        self._recovery = recovery
        self._inbox = inbox
        self._operator_actions = operator_actions
        self.batches = Batches(partitions.assignment, partitions.read_ahead)
        self._leaving: Leaving[Message] | None = None
        self.engine: Engine[Message] = Engine(
            settings,
            operator_actions.circuits,
            operator_actions.consecutive,
            operator_actions.clock,
            Reading(line, _record, _place),
        )

    def failed(self, held: Held[Message], error: Exception, *, is_permanent: bool = False) -> None:
        """Does what follows a failed attempt, which `held` does not count yet.

        `is_permanent`: whatever `transient` says of it. Raises `ExhaustedError` or `PermanentError`
        if the user chose to stop.
        """
        if isinstance(error, PlaceLostError):
            # No failure of the message: the member that has its place handles it.
            self._flow_control.mark_lost([held.partition], str(error))
        else:
            self.follow(self.judge(held, error, is_permanent=is_permanent))

    def judge(
        self, held: Held[Message], error: Exception, *, is_permanent: bool = False
    ) -> Verdict[Message]:
        """Decides about a failed attempt, by what a strategy's file has now; does nothing yet."""
        if (event := self.engine.look()) is not None:
            self.emit(event)
        topic, _ = held.partition
        return self.engine.judge(
            held, self.engine.described(error, topic, is_permanent=is_permanent)
        )

    def follow(self, verdict: Verdict[Message]) -> None:
        """Does what follows a verdict.

        Raises `ExhaustedError` or `PermanentError` if the user chose to stop.
        """
        if verdict.held.others and not isinstance(verdict.decision, Wait):
            self._take_apart(verdict.held)
        else:
            self.carry_out(self.engine.step(verdict))

    def failed_at_revoke(self, held: Held[Message], error: Exception) -> None:
        """Opens the circuit of a message that is to wait; the next owner learns of it by the note.

        Anything else that a failure leads to is not begun any more.
        """
        verdict = self.judge(held, error)
        if isinstance(verdict.decision, Wait | Block):
            step = self.engine.step(verdict)
            for event in step.events if isinstance(step, Hold) else ():
                self.emit(event)

    def carry_out(self, step: Step[Message]) -> None:
        """Takes one step; only starts to send what is leaving."""
        match step:
            case Hold():
                if step.pauses:
                    # The state is recorded: a call may fail. The commit, so that a kill during a
                    # long wait repeats less, comes last: pause and seek must not depend on it.
                    self._flow_control.pause(step.scope)
                    self._commits.send()
                for event in step.events:
                    self.emit(event)
            case Settle():
                self._settle(step)
            case Leaving():
                if self._operator_actions.requests.due_at_s < math.inf:
                    self._operator_actions.begin(step.held)
                if self._leaving is not None:
                    raise AssertionError("two messages leave at once: a bug; please report it")
                # It leaves the line alone: the rest of its batch is not done with it.
                self._leaving = replace(step, held=replace(step.held, others=()))
            case _:
                assert_never(step)

    def take_leaving(self) -> Leaving[Message] | None:
        """Returns what is to be sent now, once."""
        leaving, self._leaving = self._leaving, None
        return leaving

    def send(self, leaving: Leaving[Message]) -> Steps[None]:
        """Sends a letter, and does what follows; the caller polls at each step.

        Its offset is stored only after the acknowledgement.
        """
        held = leaving.held
        self._read_ahead.in_hand = held.partition, held.offset
        try:
            answer = self._noted_first(held) or (yield from self._sending(leaving))
        finally:
            self._read_ahead.in_hand = None
        self._conclude(leaving, answer)

    def drop(self, scope: Scope) -> None:
        """Closes a circuit that has nothing left to probe, and lets its scope go on."""
        closed = self.engine.close(scope, "dropped")
        if closed is not None:
            self._flow_control.resume(scope)
            self.emit(closed)

    def tick(self) -> None:
        """Commits, and polls the idle producer for its reports."""
        self._commits.send()
        if self._publisher is not None:
            self._publisher.poll()

    # -- inside ----------------------------------------------------------------------------

    def _settle(self, step: Settle[Message]) -> None:
        """Stores the offset, closes the circuit, resumes the scope, and emits the events last.

        A listener may end the program's loop with a `SystemExit`: the event must be true by then,
        or another loop would send the letter again.
        """
        done = self._read_ahead.done((step.held.message, *step.held.others))
        if self._inbox is not None and step.outcome != "recovered":
            self._inbox.passed(done, step.held.message)
        self._offsets.done(done)
        scope = self.engine.scope_of(step.held)
        closed = self.engine.close(scope, step.outcome)
        if closed is not None:
            self._flow_control.resume(scope)
        for event in (step.event, closed):
            if event is not None:
                self.emit(event)

    def _take_apart(self, held: Held[Message]) -> None:
        """Attempts each message of a batch alone next: none is given up for another's failure."""
        circuits = self._flow_control.circuits
        # What a circuit pauses is fetched again: only the held message stays in memory.
        self.batches.take_apart(held, keep=not circuits.stops(held.partition))
        scope = self.engine.scope_of(held)
        if circuits.get(scope) is not None:
            circuits.hold(scope, Failing(replace(held, others=())))
        place, failures = (*held.partition, held.offset), held.failures
        count = 1 + len(held.others)
        self.emit(BatchTakenApart(*place, count, failures.text, failures.count))

    def _noted_first(self, held: Held[Message]) -> Answer | None:
        """Notes in the inbox that a letter is about to be sent; an answer if that is not to be."""
        if self._inbox is None:
            return None
        try:
            self._inbox.leave(held.message)
        except PlaceLostError as error:
            self._flow_control.mark_lost([held.partition], str(error))
            return Abandoned()
        except StoreError as error:
            return NotSent(str(error))
        return None

    def _sending(self, leaving: Leaving[Message]) -> Steps[Answer]:
        held, route = leaving.held, leaving.route
        if isinstance(route, ToCallback):
            if self._recovery is None:
                raise AssertionError("no callback to call: a bug; please report it")
            return self._recovery.send(held, route.error)
        if self._publisher is None:
            raise AssertionError("nowhere to send it: a bug; please report it")
        return self._publisher.send(leaving, partial(read, held.message))

    def _conclude(self, leaving: Leaving[Message], answer: Answer) -> None:
        held = leaving.held
        is_ours = self._assignment.epochs.get(held.partition) == held.epoch
        match answer:
            case Acknowledged():
                settle = self.engine.acknowledged(leaving)
                if is_ours:
                    # A rebalance during the wait may have caused everything to be fetched again.
                    self._read_ahead.drop_through(held.partition, held.offset)
                    self._settle(settle)
                elif settle.event is not None:
                    self.emit(settle.event)
                if leaving.letter.reason == GIVEN_UP:
                    self._operator_actions.dead_lettered(held)
            case NotSent(error):
                if is_ours:
                    self.carry_out(self.engine.not_sent(leaving, error))
            case Abandoned():
                # The message is read again, by us or by another member.
                self._read_ahead.invalidate()
            case _:
                assert_never(answer)


def _record(held: Held[Message]) -> Record:
    return read(held.message)


def _place(held: Held[Message]) -> str:
    return str(Place(*held.partition, held.offset))
