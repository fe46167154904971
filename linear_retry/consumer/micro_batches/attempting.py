"""A micro-batch, attempted until it is done or given up: what a consumer does with a message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from linear_retry import events
from linear_retry.consumer.dead_letters.publisher import (
    Abandoned,
    Acknowledged,
    NotSent,
    failure_info,
    resend_delay_s,
)
from linear_retry.consumer.micro_batches.micro_batch import MicroBatch
from linear_retry.consumer.micro_batches.publisher import Sender
from linear_retry.consumer.monitoring.failure_events import (
    Opening,
    dead_lettered,
    letter_failed,
    limit_reached,
    opened,
    probe_failed,
    what,
)
from linear_retry.consumer.outcomes import Choices
from linear_retry.consumer.runners.results import Results, UndoneError
from linear_retry.errors import ExhaustedError, PermanentError, UsageError
from linear_retry.events import Listener
from linear_retry.journal.journal import Journal
from linear_retry.records.dead_letter import to_dead_letter
from linear_retry.records.record import Record
from linear_retry.retry.circuits import Circuits, CircuitView, Held
from linear_retry.retry.clock import Clock
from linear_retry.retry.consecutive import ConsecutiveDeadLetters
from linear_retry.retry.decision import Defer, Publish, Reason, Skip, Stop, Wait, decide
from linear_retry.scope import Scope

_SCOPE = Scope()


class Attempting:
    """Attempts the micro-batches of one stream, in their order, one at a time.

    The circuit is theirs, and holds the batch, also while the letters of its rows are sent.
    """

    def __init__(
        self,
        choices: Choices,
        circuits: Circuits,
        emit: Listener,
        clock: Clock,
        group_id: str,
        sender: Sender | None,
        journals: Sequence[Journal] = (),
    ) -> None:
        """`sender` may be None only where no choice needs letters."""
        self._choices = choices
        self._circuits = circuits
        self._emit = emit
        self._clock = clock
        self._group_id = group_id
        self._sender = sender
        self._journals = journals
        self._in_a_row = ConsecutiveDeadLetters()
        self._results = Results()
        self._run: str | None = None
        self._has_spoken = False

    def handle(self, batch: MicroBatch) -> None:
        """Returns once it is done, dead-lettered or skipped; only then the stream may go on.

        Raises `ExhaustedError` and `PermanentError` where `"stop"` was chosen, `UsageError` where
        `transient` raises or the handler returns what nobody would do, and what `MicroBatch.end`
        raises. The batch is not done then: it comes
        again.
        """
        self._begin(batch)
        is_over = False
        try:
            held = Held(None, batch.place, batch.number, epoch=0)
            while not is_over:
                error = self._error_of(batch)
                if error is None:
                    self._in_a_row.end()
                    self._finish("recovered")
                    is_over = True
                else:
                    held = held.failed(error, self._clock.utc_ms())
                    is_over = self._is_over(batch, held, error)
        finally:
            if not is_over:
                self._leave(batch)

    @property
    def needs_dead_letters(self) -> bool:
        return self._choices.policy.needs_dead_letters

    @property
    def circuit(self) -> CircuitView:
        """As it is now; for any thread."""
        return self._circuits.views[_SCOPE]

    def close(self) -> None:
        """The last word, where anything was said."""
        self._run = None
        if self._sender is not None:
            self._sender.close()
        if self._has_spoken:
            self._has_spoken = False
            self._emit(events.Stopped(left_group=True))

    # -- inside ------------------------------------------------------------------------------

    def _begin(self, batch: MicroBatch) -> None:
        if self._run != batch.run:
            if self._sender is not None:
                self._sender.prepare()
            for journal in self._journals:
                journal.prepare([journal.topic])
            self._run, self._has_spoken = batch.run, True
            self._emit(events.Assigned((batch.place,)))

    def _leave(self, batch: MicroBatch) -> None:
        """Its stream ends, and the next one counts anew."""
        self._run = None
        self._finish("dropped")
        self._emit(events.Revoked((batch.place,)))

    def _error_of(self, batch: MicroBatch) -> Exception | None:
        try:
            self._results.check(batch.attempt())
        except UndoneError as undone:
            place = f"{batch.place[0]}, micro-batch {batch.number}"
            raise UsageError(f"{place}: the handler returned {undone}") from None
        except Exception as error:  # noqa: BLE001  (the handler's: any of it is an outcome)
            return error
        return None

    def _is_over(self, batch: MicroBatch, held: Held, error: Exception) -> bool:
        """What to do about a failure, done; False: attempt it again."""
        if batch.is_stopping():
            batch.end()  # what a stop interrupts fails of anything
        choices = self._choices
        failure = choices.classify(error)
        in_a_row = self._in_a_row.counted()
        decision = decide(failure, held.failures, choices.policy, choices.rng, consecutive=in_a_row)
        match decision:
            case Wait(delay_s):
                self._hold(batch, held, delay_s)
                return False
            case Defer(delay_s):
                self._hold_back(batch, held, delay_s)
                return False
            case Publish(reason):
                self._bury(batch, held, reason)
            case Skip():
                self._skip(held)
            case Stop(reason):
                raise self._ended(held, reason) from error
            case _:
                assert_never(decision)
        return True

    def _bury(self, batch: MicroBatch, held: Held, reason: Reason) -> None:
        """A letter for each row, in order. Over once the last of them is acknowledged."""
        for record in batch.records():
            if batch.is_stopping():
                batch.end()
            self._send(batch, held, record, reason)
            self._in_a_row.note(reason)
        self._finish("dead-lettered")

    def _send(self, batch: MicroBatch, held: Held, record: Record, reason: Reason) -> None:
        """Sent, whatever it takes: with no exception but that of a stop."""
        sender = self._sender
        if sender is None:
            raise AssertionError("buried without a dead-letter topic: a bug; please report it")
        letter = to_dead_letter(
            record, failure_info(held, reason, self._group_id, self._choices.policy.strategy.label)
        )
        of_row = replace(held, partition=(record.topic, record.partition), offset=record.offset)
        while True:
            match sender.send(letter, record, batch.is_stopping):
                case Acknowledged():
                    self._emit(dead_lettered(of_row, letter, sender.topic))
                    return
                case Abandoned():
                    batch.end()
                case NotSent(error):
                    held = replace(held, sends=held.sends + 1)
                    opening = self._open(held, resend_delay_s(held.sends))
                    if opening.was_closed:
                        self._emit(opened(opening))
                    # The row's partition is no stream's: in the journal it would be a member's.
                    self._emit(letter_failed(opening, sender.topic, f"{record.place}: {error}"))
                    self._wait(batch, opening.delay_s)

    def _hold(self, batch: MicroBatch, held: Held, delay_s: float) -> None:
        opening = self._open(held, delay_s)
        self._emit(opened(opening) if opening.was_closed else probe_failed(opening))
        self._wait(batch, delay_s)

    def _hold_back(self, batch: MicroBatch, held: Held, delay_s: float) -> None:
        opening = self._open(held, delay_s)
        if opening.was_closed:
            self._emit(opened(opening))
        self._emit(limit_reached(opening, self._choices.policy.letter_limit or 0))
        self._wait(batch, delay_s)

    def _open(self, held: Held, delay_s: float) -> Opening:
        was_closed = self._circuits.get(_SCOPE) is None
        now_s, now_ms = self._clock.now_s(), self._clock.utc_ms()
        circuit = self._circuits.open(_SCOPE, held, now_s, delay_s, now_ms)
        return Opening(_SCOPE, held, delay_s, circuit.retry_at, was_closed)

    def _wait(self, batch: MicroBatch, delay_s: float) -> None:
        batch.wait(delay_s)
        self._circuits.half_open(_SCOPE)

    def _finish(self, outcome: events.CloseOutcome, *said: events.Event) -> None:
        if self._circuits.get(_SCOPE) is not None:
            open_s = self._circuits.close(_SCOPE, self._clock.now_s())
            said = (*said, events.CircuitClosed(_SCOPE, outcome, open_s))
        for event in said:
            self._emit(event)

    def _skip(self, held: Held) -> None:
        """One event for all its rows: they are not read for that."""
        retry_id = to_dead_letter(
            Record(*held.partition, held.offset, -1, None, None),
            failure_info(held, "permanent", self._group_id, self._choices.policy.strategy.label),
        ).retry_id
        place = (*held.partition, held.offset)
        self._finish("skipped", events.Skipped(*place, retry_id, what(held)))

    def _ended(self, held: Held, reason: Reason) -> ExhaustedError | PermanentError:
        name, number = held.partition
        kind = ExhaustedError if reason == "exhausted" else PermanentError
        return kind(
            f"{name}, micro-batch {held.offset}: failure {held.failures} was {what(held)}, and "
            f'on_{reason}="stop"; the micro-batch is not done',
            topic=name,
            partition=number,
            offset=held.offset,
            failures=held.failures,
        )
