"""An operator wants a held message retried, or given up, now: what does that change?"""

from __future__ import annotations

from dataclasses import replace

from linear_retry.consumer.circuits import Circuit, Held
from linear_retry.consumer.letters import write
from linear_retry.consumer.parts import Parts
from linear_retry.consumer.requests import Request, Requests
from linear_retry.consumer.telling import retried_now
from linear_retry.decision import GIVEN_UP
from linear_retry.scope import Partition, Scope


class Operating:
    """Puts requests into effect, on the owner thread, between attempts."""

    def __init__(self, parts: Parts, requests: Requests, strategy: str) -> None:
        """`strategy` is what letters say of it."""
        self._parts = parts
        self._requests = requests
        self._strategy = strategy

    def look(self) -> list[Scope]:
        """Once a turn, after the poll: whose held message is to be attempted or sent now.

        In the order of asking. A message that is to be attempted in this turn is given up in the
        next, if it is held then: it may succeed.
        """
        if not self._requests:
            return []
        now: list[Scope] = []
        to_attempt: set[tuple[Partition, int]] = set()
        for request in self._requests.look():
            place = request.partition, request.offset
            found = self._parts.circuits.holding(*place)
            if found is None:
                self._requests.tell(request, False)
            elif request.kind == "retry":
                if self._requests.take_up(request):
                    to_attempt.add(place)
                    now.append(found[0])
            elif place not in to_attempt and self._takes_effect(request, *found):
                now.append(found[0])
        return now

    def begin(self, held: Held) -> None:
        """Its attempt starts now, or the sending of its letter: whoever asked for that is told."""
        asked = self._requests.taken_up("retry", held.partition, held.offset)
        found = self._parts.circuits.holding(held.partition, held.offset) if asked else None
        if found is None:
            return
        scope, circuit = found
        early_s = max(circuit.retry_at_s - self._parts.clock.now_s(), 0.0)
        self._parts.emit(retried_now(scope, held, early_s))
        for request in asked:
            self._requests.tell(request, True)

    def dead_lettered(self, held: Held) -> None:
        """Its letter is acknowledged."""
        for request in self._requests.taken_up("give-up", held.partition, held.offset):
            self._requests.tell(request, True)

    # -- inside ----------------------------------------------------------------------------

    def _takes_effect(self, request: Request, scope: Scope, circuit: Circuit) -> bool:
        """Whether its letter is to be sent now; later on the circuit says when, as for any."""
        held = circuit.held
        # One that has not failed yet is attempted in this very turn: its letter could say nothing.
        if held is None or not held.failures or request.is_taken_up:
            return False
        if not self._requests.take_up(request):
            return False
        if held.letter is None or held.letter.reason != GIVEN_UP:
            letter = write(held, GIVEN_UP, self._parts.settings.group_id, self._strategy)
            self._parts.circuits.hold(scope, replace(held, letter=letter))
        return True
