"""Reads messages, attempts them, and lets the engine decide: the path of every message."""

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Protocol, TypeAlias

from linear_retry import events
from linear_retry.consumer.operations.monitoring.monitor import Monitor
from linear_retry.consumer.operations.operator_actions import OperatorActions
from linear_retry.consumer.operations.watchdogs.overrun import OverrunWatchdog
from linear_retry.consumer.outcomes import Outcomes
from linear_retry.consumer.partitions.batches import BatchLimits
from linear_retry.consumer.partitions.polling import Poller
from linear_retry.consumer.partitions.read_ahead import next_offsets, offset_of, partition_of
from linear_retry.consumer.runners.run_handler import Batch
from linear_retry.consumer.runners.stop import StopFlag
from linear_retry.errors import DeadLetterError
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import foreign_group, foreign_or_unfit, have_no_headers
from linear_retry.retry.case import RECOVERY, Held, Leaving, ToCallback
from linear_retry.scope import Scope


class Due(Protocol):
    """When a chore is due: infinity for never."""

    @property
    def due_at_s(self) -> float: ...


_MOST_RETRIES = 32
Chore: TypeAlias = tuple[Due, Callable[[], None]]
"""A periodic task, run by the owner thread between polls once it is due."""


class Loop:
    """Runs the turns of a consumer, on one thread."""

    def __init__(
        self,
        poller: Poller,
        outcomes: Outcomes,
        operator_actions: OperatorActions,
        monitor: Monitor,
        stop: StopFlag,
        chores: Sequence[Chore],
        *,
        reads_retries: bool = False,
        returns: bool = False,
    ) -> None:
        """`chores` that are due run once a turn, after the poll, in their order."""
        partitions = outcomes.partitions
        self._poller = poller
        self._now_s = partitions.assignment.now_s
        self._outcomes = outcomes
        self._engine = outcomes.engine
        self._assignment = partitions.assignment
        self._offsets = partitions.offsets
        self._commits = partitions.commits
        self._read_ahead = partitions.read_ahead
        self._flow_control = partitions.flow_control
        self._circuits = operator_actions.circuits
        self._operator_actions = operator_actions
        self._requests = operator_actions.requests
        self._monitor = monitor
        self._stop = stop
        self._chores = chores
        self._reads_retries = reads_retries
        self._why_not = foreign_or_unfit if reads_retries else foreign_group
        self._returns = returns
        self._overrun = OverrunWatchdog(self._read_ahead, self._flow_control, outcomes.emit)
        self._limits: BatchLimits | None = None

    def turn(self, limits: BatchLimits | None = None) -> Generator[Batch]:
        """Polls once, then hands out what is due. A poll precedes every attempt.

        With `limits`, a batch is of one partition, for the handler of `run_batches`.
        A batch's outcome is applied when the next batch is requested, or at `close`. Raises what
        cannot be retried; nothing unhandled is committed.
        """
        self._limits = limits
        try:
            yield from self._turn()
        except BaseException:
            # A message may have been dropped on the way: the next turn must read from what is done.
            self._read_ahead.invalidate()
            raise

    def await_delivery(self) -> None:
        """Polls until the dead letter in flight is answered; at once without one.

        Pauses nothing for it, and hands over nothing meanwhile.
        """
        leaving = self._outcomes.take_leaving()
        if leaving is None:
            return
        # If polling raises, its message is delivered again.
        with closing(self._outcomes.send(leaving)) as steps:
            # It may have failed a while ago. No poll before the first step: the message is neither
            # read ahead nor done, and only that step checks whose it is.
            self._poller.give_up_if_overran()
            for polls_at_once in steps:
                if isinstance(leaving.route, ToCallback):
                    self._overran(leaving.held.message, RECOVERY)
                if polls_at_once:
                    self.poll_along()
                else:
                    self._poll_if_late()

    # -- read ------------------------------------------------------------------------------

    def poll_along(self) -> None:
        """Polls while waiting for something else, to stay in the group."""
        self._poller.touch()
        if self._commits.due_at_s <= self._now_s():
            self._outcomes.tick()

    def _poll_if_late(self) -> None:
        """Polls if one is due: probes and deliveries may take longer than the group allows."""
        if self._now_s() >= self._read_ahead.deadline_s:
            self.poll_along()

    # -- attempt ---------------------------------------------------------------------------

    def _turn(self) -> Generator[Batch]:
        self.await_delivery()
        self._poller.poll()
        for due, chore in self._chores:
            if due.due_at_s <= self._now_s():
                chore()
        for scope in self._scopes_to_probe():
            if self._stop.asked:  # each probe of a dependency that is down may take a full timeout
                return
            self._poll_if_late()
            yield from self._probe(scope)
        if self._read_ahead.messages and not self._stop.asked:
            self._poll_if_late()
            yield from self._hand_over()

    def _scopes_to_probe(self) -> Iterable[Scope]:
        """The scopes to probe: first those that operators requested, then those that are due."""
        asked = self._operator_actions.due() if self._requests.due_at_s < math.inf else []
        now_s = self._now_s()
        due = self._circuits.due(now_s) if self._circuits.next_retry_at_s <= now_s else []
        return dict.fromkeys([*asked, *due])

    def _hand_over(self) -> Generator[Batch]:
        """Hands out the read-ahead until one fails, or a poll or a probe is due."""
        if self._limits is None:
            messages = self._for_us(self._read_ahead.messages)
        else:
            messages = self._outcomes.batches.next(self._limits, self._for_us)
        if messages:
            self._stop.allow_until(min(self._read_ahead.deadline_s, self._circuits.next_retry_at_s))
            yield from self._attempt(self._batch(messages))

    def _batch(self, messages: Sequence[Message], number: int = 1) -> Batch:
        begin_by_s, is_whole = self._read_ahead.overruns_at_s, self._limits is not None
        return Batch(messages, number, begin_by_s=begin_by_s, is_whole=is_whole)

    def _note_done(self, batch: Batch, begun_s: float) -> Held[Message] | None:
        """Notes all handled messages at once: there is no bookkeeping per success."""
        ahead, failed = self._read_ahead.messages, batch.failed
        self._offsets.done(next_offsets(batch.messages[: batch.handled]))
        del ahead[: batch.handled + len(failed)]
        if not batch.is_whole:
            self._read_ahead.note_speed(batch.handled, self._now_s() - begun_s)
        self._monitor.succeeded += batch.handled
        if batch.handled:
            self._engine.succeeded()
        return self._held(*failed) if failed else None

    def _note_probed(self, batch: Batch, held: Held[Message]) -> Held[Message]:
        """Notes what is done of the messages that were held; returns what has failed."""
        if not batch.handled:  # fewer than were held, if the handler said which
            return replace(held, others=tuple(batch.failed[1:])) if batch.failed else held
        failed, done = batch.failed, batch.messages[: batch.handled]
        self._monitor.succeeded += batch.handled
        recovered = replace(held, others=tuple(done[1:]))
        self._outcomes.carry_out(self._engine.recovered(recovered))
        return self._held(*failed) if failed else held

    def _probe(self, scope: Scope) -> Generator[Batch]:
        """Attempts the held message, and only that, from memory.

        At `retry_at`, or when an operator requests it; the latter is for this message only, not for
        one in its place.
        """
        circuits = self._circuits
        circuit = circuits.get(scope)
        if circuit is None:
            return  # closed meanwhile: a rebalance ran while another scope's letter was awaited
        if circuit.held is None and circuit.retry_at_s > self._now_s():
            return
        case = circuits.half_open(scope).case
        if case is None:
            self._let_a_first_one_come(scope)
        elif isinstance(case, Leaving):
            self._outcomes.carry_out(case)
            self.await_delivery()
        elif not case.held.failures and not self._for_us([case.held.message]):
            # Another group's replay tells nothing about the dependency; the next message will.
            circuits.drop_held([case.held.partition])
            circuits.half_open(scope)
            self._let_a_first_one_come(scope)
        else:
            yield from self._probe_with(case.held)

    def _probe_with(self, held: Held[Message]) -> Generator[Batch]:
        if self._requests.due_at_s < math.inf:
            self._operator_actions.begin(held)
        refusal = self._why_not(held.message, self._outcomes.line) if self._reads_retries else None
        if isinstance(refusal, DeadLetterError):
            # Held by the limit, it is no more to be attempted than when it came.
            self._outcomes.failed(held, refusal, is_permanent=True)
            self.await_delivery()
            return
        messages = [held.message, *held.others]
        yield from self._attempt(self._batch(messages, held.failures.count + 1), held)

    def _attempt(self, batch: Batch, held: Held[Message] | None = None) -> Generator[Batch]:
        """Hands out a batch, notes what is done, and lets the engine decide on a failure.

        With `held` it is a probe of that; else the batch comes from the read-ahead.
        """
        begun_s = self._now_s()
        self._monitor.handed_out = begun_s, batch.messages[0]
        try:
            yield batch
        finally:  # also if the runner leaves by an exception: what is done must be noted
            if not self._stop.forked and not self._too_slow(batch):
                if held is None:
                    held = self._note_done(batch, begun_s)
                else:
                    held = self._note_probed(batch, held)
                batch.check_unchanged()
                if held is not None and batch.error is not None:
                    self._monitor.failed += 1
                    self._outcomes.failed(held, batch.error)
            # Its traceback leads to this batch: a cycle, which would last for the whole wait.
            batch.error = None
        self.await_delivery()

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

    def _for_us(self, ahead: list[Message], most: int | None = None) -> list[Message]:
        """Returns the messages to hand over, none behind one that is not; deals with such a head.

        The only place that decides this. Most messages have no headers, so are not replays.
        """
        # A failure ends a batch: to read the headers of thousands again after each takes 100 ms.
        most = _MOST_RETRIES if most is None and self._reads_retries else most
        batch, ours = ahead[:most], 0
        if not self._reads_retries and have_no_headers(batch):
            return batch
        why_not_ours, line, returns = self._why_not, self._outcomes.line, self._returns
        for message in batch:
            why_not = why_not_ours(message, line)
            if why_not is None and not returns:
                ours += 1
            elif ours:
                break  # it is asked again when it is the first
            elif isinstance(why_not, str):
                self._offsets.done(next_offsets([message]))
                del ahead[0]
                place = (*partition_of(message), offset_of(message))
                self._outcomes.emit(events.PassedOver(*place, retry_group_id=why_not))
            else:
                self._leave_unattempted(self._held(ahead.pop(0)), why_not)
                return []  # and `ahead` may be stale: what is refused may open a circuit
        return ahead[:ours]

    def _leave_unattempted(self, held: Held[Message], why_not: DeadLetterError | None) -> None:
        """Lets it leave for its source, or for the dead letters if it is no retry."""
        if why_not is None:
            self._outcomes.carry_out(self._engine.returned(held))
        else:
            self._outcomes.failed(held, why_not, is_permanent=True)

    def _held(self, message: Message, *others: Message) -> Held[Message]:
        partition = partition_of(message)
        epoch = self._assignment.epochs.get(partition) or 0
        found = Held(message, partition, offset_of(message), epoch, others=others)
        return self._outcomes.batches.resumed(found)

    # -- what is done ----------------------------------------------------------------------

    def _too_slow(self, batch: Batch) -> bool:
        """Ends a batch; whether the group has removed us meanwhile: then nothing is stored."""
        self._monitor.end_batch(self._now_s())
        return self._overran(batch.last_attempted)

    def _overran(self, message: Message, what: str = "handler") -> bool:
        """Whether the group has removed us while the user's code, `what`, had this message."""
        now_s = self._now_s()
        if not self._read_ahead.overran(now_s):
            return False
        self._overrun.note(now_s, message, what)
        return True
