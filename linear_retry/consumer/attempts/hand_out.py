"""Chooses what is attempted next, and applies what came of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from linear_retry.consumer.attempts.intake import Intake
from linear_retry.consumer.attempts.outcomes import Outcomes
from linear_retry.consumer.control.operator_actions import OperatorActions
from linear_retry.consumer.operations.monitor import Monitor
from linear_retry.consumer.partitions.batches import BatchLimits
from linear_retry.consumer.runners.run_handler import Batch
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import read
from linear_retry.retry.case import Failures, Held, Leaving
from linear_retry.retry.current_attempt import AttemptInfo
from linear_retry.retry.decision import Wait
from linear_retry.scope import Scope

_NO_FAILURES = Failures()


@dataclass(slots=True)
class Task:
    """A batch to attempt: a probe of what is `held`, or messages that were read ahead.

    `begun_s` is when it was handed out, or when its attempt began.
    """

    batch: Batch
    begun_s: float
    held: Held[Message] | None = None


class HandOut:
    """Hands out probes and messages, and lets the engine decide on those that failed."""

    def __init__(
        self,
        intake: Intake,
        outcomes: Outcomes,
        operator_actions: OperatorActions,
        monitor: Monitor,
        *,
        reads_retries: bool = False,
    ) -> None:
        """`reads_retries`: of retry topics, in which nothing is attempted before its time."""
        partitions = outcomes.partitions
        self._intake = intake
        self._outcomes = outcomes
        self._engine = outcomes.engine
        self._now_s = partitions.assignment.now_s
        self._assignment = partitions.assignment
        self._offsets = partitions.offsets
        self._read_ahead = partitions.read_ahead
        self._flow_control = partitions.flow_control
        self._circuits = operator_actions.circuits
        self._operator_actions = operator_actions
        self._monitor = monitor
        self._reads_retries = reads_retries

    def next(self, limits: BatchLimits | None = None) -> Task | None:
        """Returns messages from the front of the read-ahead; None if none is to be attempted.

        With `limits`, a batch is of one partition, for the handler of `run_batches`.
        """
        if limits is None:
            messages = self._intake.for_us(self._read_ahead.messages)
            return self.task(messages) if messages else None
        messages = self._outcomes.batches.next(limits, self._intake.for_us)
        return self._task(messages, is_whole=True) if messages else None

    def for_us(self, ahead: list[Message]) -> list[Message]:
        """Returns the first messages to attempt, and takes out one that is not (`Intake`)."""
        return self._intake.for_us(ahead)

    def task(self, messages: Sequence[Message]) -> Task:
        """Returns the task of attempting these, each of which is to be attempted."""
        return self._task(messages, is_whole=False)

    def probe(self, scope: Scope, *, is_whole: bool = False) -> Task | None:
        """Returns the held message, and only that, from memory; None: nothing is to be attempted.

        At `retry_at`, or when an operator requests it; the latter is for this message only, not for
        one in its place. What is leaving is sent next. `is_whole`: for a handler of batches.
        """
        circuits = self._circuits
        circuit = circuits.get(scope)
        if circuit is None:  # closed meanwhile: a rebalance ran while another's letter was awaited
            return None
        if circuit.held is None and circuit.retry_at_s > self._now_s():
            return None
        case = circuits.half_open(scope).case
        if case is None:
            self._let_a_first_one_come(scope)
        elif isinstance(case, Leaving):
            self._outcomes.carry_out(case)
        elif not case.held.failures and not self._intake.for_us([case.held.message]):
            now = circuits.get(scope)
            if now is not None and now.case is case:  # else it is held for what it failed before
                # Another group's replay tells nothing about the dependency; the next message will.
                circuits.let_go(scope)
                circuits.half_open(scope)
                self._let_a_first_one_come(scope)
        else:
            return self._probe_of(case.held, is_whole=is_whole)
        return None

    def conclude(self, task: Task) -> None:
        """Notes what is done, and what follows a failure; only starts to send what is leaving."""
        batch, held = task.batch, task.held
        held = self._note_done(task) if held is None else self._note_probed(batch, held)
        batch.check_unchanged()
        if held is not None and batch.error is not None:
            self._monitor.failed += 1
            self._outcomes.failed(held, batch.error)

    def conclude_unheld(self, task: Task) -> Held[Message] | None:
        """As `conclude`, but a message that is to wait is not held: it stays the next of its lane.

        Returns it with its failure; None: it is not to wait, and what follows is begun.
        """
        batch = task.batch
        if batch.error is None or task.held is not None:
            raise AssertionError("nothing has failed for the first time: please report it")
        verdict = self._outcomes.judge(self._intake.held(*batch.failed), batch.error)
        self._monitor.failed += 1
        if isinstance(verdict.decision, Wait):
            self.conclude_abandoned(task)
            return verdict.held
        self._note_done(task)
        batch.check_unchanged()
        self._outcomes.follow(verdict)
        return None

    def conclude_revoked(self, task: Task) -> None:
        """Notes what is done, and that a failed message is to wait: its partition is about to go.

        Whatever else would follow is left to the next owner, who attempts the message again.
        """
        self.conclude_abandoned(task)
        batch = task.batch
        if batch.error is not None:
            held = task.held or self._intake.held(*batch.failed)
            self._monitor.failed += 1
            self._outcomes.failed_at_revoke(held, batch.error)

    def conclude_abandoned(self, task: Task) -> None:
        """Notes what is done, and judges no failure: its message is the next one of its partition.

        For an end at which nothing may be asked of the client any more.
        """
        batch, done = task.batch, task.batch.messages[: task.batch.handled]
        if task.held is None:
            self._read_ahead.take_out(done)
        elif done and (at := self._circuits.holding(task.held.partition, task.held.offset)):
            self._circuits.let_go(at[0])
        self._note_handled(batch)

    # -- inside ----------------------------------------------------------------------------

    def _probe_of(self, held: Held[Message], *, is_whole: bool) -> Task | None:
        if self._operator_actions.requests.due_at_s < math.inf:
            self._operator_actions.begin(held)
        refusal = self._intake.unfit(held.message)
        if refusal is not None:
            # Held by the limit, it is no more to be attempted than when it came.
            self._outcomes.failed(held, refusal, is_permanent=True)
            return None
        return self._task([held.message, *held.others], held, is_whole=is_whole)

    def _task(
        self, messages: Sequence[Message], held: Held[Message] | None = None, *, is_whole: bool
    ) -> Task:
        failures = _NO_FAILURES if held is None else held.failures
        batch = Batch(
            messages,
            failures.count + 1,
            begin_by_s=self._read_ahead.overruns_at_s,
            is_whole=is_whole,
            info_of=partial(self._info, failures),
        )
        return Task(batch, self._now_s(), held)

    def _info(self, failures: Failures, message: Message) -> AttemptInfo:
        return self._engine.info(failures, read(message))

    def _note_handled(self, batch: Batch) -> None:
        self._offsets.done(self._read_ahead.done(batch.messages[: batch.handled]))
        if batch.handled:
            self._monitor.handled(batch.handled, self._now_s())
            self._engine.succeeded()

    def _note_done(self, task: Task) -> Held[Message] | None:
        """Notes all handled messages at once: there is no bookkeeping per success."""
        batch, failed = task.batch, task.batch.failed
        self._read_ahead.take_out(batch.messages[: batch.handled + len(failed)])
        self._note_handled(batch)
        if not batch.is_whole:
            self._read_ahead.note_speed(batch.handled, self._now_s() - task.begun_s)
        return self._intake.held(*failed) if failed else None

    def _note_probed(self, batch: Batch, held: Held[Message]) -> Held[Message]:
        """Notes what is done of the messages that were held; returns what has failed."""
        if not batch.handled:  # fewer than were held, if the handler said which
            return replace(held, others=tuple(batch.failed[1:])) if batch.failed else held
        failed, done = batch.failed, batch.messages[: batch.handled]
        self._monitor.handled(batch.handled, self._now_s())
        recovered = replace(held, others=tuple(done[1:]))
        self._outcomes.carry_out(self._engine.recovered(recovered))
        return self._intake.held(*failed) if failed else held

    def _let_a_first_one_come(self, scope: Scope) -> None:
        """Makes the first message delivered the probe, as the held one was revoked.

        Not of retry topics: it would be attempted before its time. They just go on.
        """
        if self._reads_retries:
            self._outcomes.drop(scope)
        elif any(map(scope.covers, self._assignment.partitions)):
            self._read_ahead.start_small()
            self._flow_control.resume(scope)
        else:
            self._outcomes.drop(scope)
