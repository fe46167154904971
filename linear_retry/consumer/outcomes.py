"""The outcome is known: decide, and put the decision into effect."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import assert_never

from linear_retry import events
from linear_retry.consumer.dead_letters.publisher import (
    Abandoned,
    Acknowledged,
    Letters,
    NotSent,
    resend_delay_s,
    write,
)
from linear_retry.consumer.monitoring.failure_events import (
    Opening,
    dead_lettered,
    letter_failed,
    limit_reached,
    opened,
    probe_failed,
    what,
)
from linear_retry.consumer.monitoring.unread_waits import UnreadWaits
from linear_retry.consumer.operations.operator_actions import OperatorActions
from linear_retry.consumer.partitions.commits import Committing
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.state import Parts
from linear_retry.errors import ExhaustedError, PermanentError, UsageError
from linear_retry.records.dead_letter import DeadLetter
from linear_retry.records.exception_text import brief
from linear_retry.retry.circuits import Held
from linear_retry.retry.decision import (
    GIVEN_UP,
    Defer,
    Failure,
    IsTransient,
    Policy,
    Publish,
    Skip,
    Stop,
    Wait,
    classify,
    decide,
)
from linear_retry.scope import Place, Scope, ScopeKind


@dataclass(frozen=True, slots=True)
class Choices:
    """What the user chose. `rng` draws the jitter, in [0, 1)."""

    policy: Policy
    is_transient: IsTransient
    scope: ScopeKind
    rng: Callable[[], float] = random.random
    unread: UnreadWaits = field(default_factory=UnreadWaits, compare=False)

    def classify(self, error: Exception) -> Failure:
        """Transient or permanent? Raises `UsageError` where `is_transient` raises."""
        try:
            failure = classify(error, self.is_transient)
        except Exception as raised:
            raise UsageError(
                f"transient= raised {brief(raised)} when asked about {brief(error)}: it must "
                "answer True or False for any exception; nothing was decided about the message"
            ) from raised
        self.unread.note(failure)
        return failure


class Applying:
    """Opens circuits, sends letters, stores offsets: the one place that does."""

    def __init__(
        self,
        parts: Parts,
        choices: Choices,
        flow_control: FlowControl,
        letters: Letters | None,
        operator_actions: OperatorActions,
    ) -> None:
        """`letters` may be None only where no choice needs them."""
        self._parts = parts
        self._choices = choices
        self._flow_control = flow_control
        self._letters = letters
        self._operator_actions = operator_actions
        self._commits = Committing(parts)

    def failed(self, before: Held, error: Exception) -> None:
        """An attempt of this message has failed, and is not counted in `before` yet.

        Raises `ExhaustedError` or `PermanentError` where the user chose to stop.
        """
        parts, choices = self._parts, self._choices
        parts.counters.failed += 1
        failure = choices.classify(error)
        held = before.failed(error, parts.clock.utc_ms())
        decision = decide(
            failure,
            held.failures,
            choices.policy,
            choices.rng,
            consecutive=parts.row.counted(parts.circuits.letters_in_doubt()),
        )
        match decision:
            case Wait(delay_s):
                self._wait(held, delay_s)
            case Publish(reason):
                self.bury(replace(held, letter=self._letter(held, reason)))
            case Defer(delay_s):
                self._hold_back(held, delay_s)
            case Skip():
                self._skip(held)
            case Stop(reason):
                raise self._ended(held, reason) from error
            case _:
                assert_never(decision)

    def succeeded(self) -> None:
        """A handler has returned: whatever fails next is no outage that began before."""
        self._parts.row.end()

    def bury(self, held: Held) -> None:
        """Send its letter. The offset is stored after the acknowledgement, with no exception."""
        letters, letter = self._letters, held.letter
        if letters is None or letter is None:
            raise AssertionError("buried without a dead-letter topic: a bug; please report it")
        self._operator_actions.begin(held)
        answer = letters.send(held, letter)
        still_ours = self._parts.assignment.epoch_of(held.partition) == held.epoch
        match answer:
            case Acknowledged():
                self._parts.row.note(letter.reason)
                said = dead_lettered(held, letter, letters.topic)
                if still_ours:
                    # A rebalance of others, while it was awaited, had everything fetched anew.
                    self._parts.read_ahead.drop_through(held.partition, held.offset)
                    self.finish(held, "dead-lettered", said)
                else:
                    self._parts.emit(said)
                if letter.reason == GIVEN_UP:
                    self._operator_actions.dead_lettered(held)
            case NotSent(error):
                if still_ours:
                    self._hold_letter(replace(held, sends=held.sends + 1), letters.topic, error)
            case Abandoned():
                # Whoever goes on, we or another, reads the message again.
                self._parts.read_ahead.invalidate()
            case _:
                assert_never(answer)

    def finish(self, held: Held, outcome: events.CloseOutcome, *said: events.Event) -> None:
        """Stored; then everything in scope goes on behind it. Then it is said.

        A listener may end the program's loop with a `SystemExit`: what it heard must be so by then,
        or another loop would send the letter once more.
        """
        parts = self._parts
        parts.counters.succeeded += outcome == "recovered"
        if outcome == "recovered":
            self.succeeded()
        parts.offsets.done({held.partition: held.offset + 1})
        scope = self._scope(held)
        if parts.circuits.get(scope) is not None:
            open_s = parts.circuits.close(scope, parts.clock.now_s())
            self._flow_control.resume(scope)
            said = (*said, events.CircuitClosed(scope, outcome, open_s))
        for event in said:
            parts.emit(event)

    def keep_house(self) -> None:
        """Once a second commit.

        And hear what the idle dead-letter producer has to say, or it piles up.
        """
        if self._commits.due:
            self._commits.send()
            if self._letters is not None:
                self._letters.listen()

    # -- inside ----------------------------------------------------------------------------

    def _wait(self, held: Held, delay_s: float) -> None:
        opening = self._open(held, delay_s)
        self._parts.emit(opened(opening) if opening.was_closed else probe_failed(opening))
        if opening.was_closed:  # not at every probe: others may go on meanwhile
            self._commits.send()

    def _hold_letter(self, held: Held, topic: str, error: str) -> None:
        opening = self._open(held, resend_delay_s(held.sends))
        if opening.was_closed:
            self._parts.emit(opened(opening))
        self._parts.emit(letter_failed(opening, topic, error))
        self._commits.send()

    def _hold_back(self, held: Held, delay_s: float) -> None:
        opening = self._open(replace(held, at_limit=True), delay_s)
        if opening.was_closed:
            self._parts.emit(opened(opening))
        self._parts.emit(limit_reached(opening, self._choices.policy.letter_limit or 0))
        self._commits.send()

    def _open(self, held: Held, delay_s: float) -> Opening:
        """Its circuit waits for so long, and holds it.

        The state first, then the pause, then the seeks: a failing call finds it recorded. Nothing
        here stands behind a commit, which may fail.
        """
        parts, scope = self._parts, self._scope(held)
        was_closed = parts.circuits.get(scope) is None
        now_s, now_ms = parts.clock.now_s(), parts.clock.utc_ms()
        circuit = parts.circuits.open(scope, held, now_s, delay_s, now_ms)
        if was_closed:
            self._flow_control.pause(scope)
        return Opening(scope, held, delay_s, circuit.retry_at, was_closed)

    def _skip(self, held: Held) -> None:
        retry_id = self._letter(held, "permanent").retry_id
        place = (*held.partition, held.offset)
        self.finish(held, "skipped", events.Skipped(*place, retry_id, what(held)))

    def _letter(self, held: Held, reason: str) -> DeadLetter:
        label = self._choices.policy.strategy.label
        return write(held, reason, self._parts.settings.group_id, label)

    def _ended(self, held: Held, reason: str) -> ExhaustedError | PermanentError:
        topic, partition = held.partition
        place = Place(topic, partition, held.offset)
        kind = ExhaustedError if reason == "exhausted" else PermanentError
        return kind(
            f"{place}: failure {held.failures} was {what(held)}, and "
            f'on_{reason}="stop"; nothing is committed past this message',
            topic=topic,
            partition=partition,
            offset=held.offset,
            failures=held.failures,
        )

    def _scope(self, held: Held) -> Scope:
        return Scope.of(self._choices.scope, held.partition)
