"""Puts operators' requests into effect: retries, give-ups, and lifting the limit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from linear_retry import events
from linear_retry.consumer.dead_letters.publisher import write
from linear_retry.consumer.operations.requests import (
    GiveUp,
    LiftLimit,
    Request,
    Requests,
    Retry,
    SkipUnreadable,
    Wish,
)
from linear_retry.consumer.state import Parts
from linear_retry.kafka import Message
from linear_retry.retry.circuits import Circuit
from linear_retry.retry.decision import GIVEN_UP, Policy, Publish, Stop, Transient, decide
from linear_retry.retry.held import Held
from linear_retry.scope import Scope


class OperatorActions:
    """On the owner thread, between attempts."""

    def __init__(self, parts: Parts, requests: Requests, policy: Policy) -> None:
        self._parts = parts
        self._requests = requests
        self._policy = policy

    def tick(self) -> list[Scope]:
        """Once a turn, after the poll: which circuits' held message is attempted or sent now.

        In the order of asking. A message that is to be attempted in this turn is given up in the
        next, if it is held then: it may succeed.
        """
        if not self._requests:
            return []
        for request in self._requests.tick():
            self._share_out(request)
        now: list[Scope] = []
        to_attempt: set[Scope] = set()
        for request in self._requests.tick():
            if isinstance(request.wish, SkipUnreadable):
                continue  # about no circuit: `UnreadableBatches` sees to it
            found = self._find(request.wish)
            if found is None:
                self._requests.tell(request, False)
                continue
            scope, circuit = found
            if isinstance(request.wish, Retry):
                if self._requests.claim(request):
                    to_attempt.add(scope)
                    now.append(scope)
                    if circuit.held is None:
                        self._end_wait(request, scope, circuit)
            elif scope not in to_attempt and self._takes_effect(request, scope, circuit):
                now.append(scope)
        return now

    def begin(self, held: Held[Message]) -> None:
        """Its attempt starts now, or the sending of its letter: whoever asked for that is told."""
        found = self._parts.circuits.holding(held.partition, held.offset)
        if found is None:
            return
        scope, circuit = found
        asked = self._requests.claimed(Retry((held.partition, held.offset)), Retry(scope))
        if not asked:
            return
        place = (*held.partition, held.offset)
        early_s = self._early_s(circuit)
        self._parts.emit(events.RetriedNow(scope, *place, held.failures, early_s))
        for request in asked:
            self._requests.tell(request, True)

    def dead_lettered(self, held: Held[Message]) -> None:
        """Its letter is acknowledged."""
        for request in self._requests.claimed(GiveUp((held.partition, held.offset))):
            self._requests.tell(request, True)

    def is_last(self, held: Held[Message]) -> bool:
        """Whether one failure more would be its last: a dead letter, or the consumer's end."""
        if held.error is None or held.letter is not None:
            return False
        in_a_row = self._parts.row.counted(self._parts.circuits.letters_in_doubt())
        failure = Transient(held.error)
        decision = decide(failure, held.failures + 1, self._policy, consecutive=in_a_row)
        return isinstance(decision, Publish | Stop)

    # -- inside ----------------------------------------------------------------------------

    def _share_out(self, request: Request) -> None:
        """What concerns several circuits becomes a request for each."""
        match request.wish:
            case Retry(None):
                scopes = [scope for scope, _ in self._parts.circuits]
                truth = bool(scopes)
            case LiftLimit():
                scopes, truth = [scope for scope, held in self._held() if held.at_limit], True
            case Retry() | GiveUp() | SkipUnreadable():
                return
            case _:
                assert_never(request.wish)
        if not self._requests.claim(request):
            return
        if isinstance(request.wish, LiftLimit):
            self._parts.row.lift(request.wish.letters)
            self._parts.emit(events.LimitLifted(request.wish.letters, request.wish.why))
        for scope in scopes:
            self._requests.wish(Retry(scope))
        self._requests.tell(request, truth)

    def _held(self) -> Iterable[tuple[Scope, Held[Message]]]:
        circuits = self._parts.circuits
        return ((scope, each.held) for scope, each in circuits if each.held is not None)

    def _find(self, wish: Wish) -> tuple[Scope, Circuit[Message]] | None:
        match wish:
            case Retry(Scope() as scope):
                circuit = self._parts.circuits.get(scope)
                return None if circuit is None else (scope, circuit)
            case Retry((partition, offset)) | GiveUp((partition, offset)):
                return self._parts.circuits.holding(partition, offset)
            case _:
                return None

    def _end_wait(self, request: Request, scope: Scope, circuit: Circuit[Message]) -> None:
        """Its message went to another member: the first one to come is attempted in its place."""
        if circuit.state == "open":
            early_s = self._early_s(circuit)
            clock = self._parts.clock
            self._parts.circuits.end_wait(scope, clock.now_s(), clock.utc_ms())
            self._parts.emit(events.WaitEnded(scope, early_s))
        self._requests.tell(request, True)

    def _early_s(self, circuit: Circuit[Message]) -> float:
        return max(circuit.retry_at_s - self._parts.clock.now_s(), 0.0)

    def _takes_effect(self, request: Request, scope: Scope, circuit: Circuit[Message]) -> bool:
        """Whether its letter is to be sent now; later on the circuit says when, as for any."""
        held = circuit.held
        # One that has not failed yet is attempted in this very turn: its letter could say nothing.
        if held is None or not held.failures or request.is_claimed:
            return False
        if not self._requests.claim(request):
            return False
        if held.letter is None or held.letter.reason != GIVEN_UP:
            letter = write(held, GIVEN_UP, self._parts.settings.group_id)
            self._parts.circuits.hold(scope, replace(held, letter=letter))
        return True
