"""Carries out operators' requests: retries, give-ups, and lifting the limit."""

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from linear_retry import events
from linear_retry.consumer.ownership.requests import (
    EndPause,
    GiveUp,
    LiftLimit,
    OperatorRequest,
    PauseWish,
    Request,
    Requests,
    Retry,
    SkipUnreadable,
)
from linear_retry.events import Event
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import read
from linear_retry.records.lineage import Line, lineage_of
from linear_retry.retry.case import Case, Failing, Held, Leaving, Limited, ToDeadLetters, leaving
from linear_retry.retry.circuits import Circuit, Circuits
from linear_retry.retry.clock import Clock
from linear_retry.retry.decision import (
    GIVEN_UP,
    Left,
    Publish,
    Recover,
    RetrySettings,
    Skip,
    Stop,
    decide,
)
from linear_retry.retry.engine import ConsecutiveDeadLetters
from linear_retry.scope import Scope


def _nobody(_: Scope) -> bool:
    """Without workers no attempt runs while requests are carried out."""
    return False


class OperatorActions:
    """Carries out requests on the owner thread, between attempts.

    `is_attempted`: whether a worker has a scope's message; requests wait until it is back.
    """

    def __init__(
        self,
        circuits: Circuits[Message],
        clock: Clock,
        requests: Requests,
        settings: RetrySettings,
        line: Line,
        emit: Callable[[Event], None],
    ) -> None:
        self.circuits = circuits
        self.clock = clock
        self.requests = requests
        self.settings = settings
        self._line = line
        self._emit = emit
        self.has_limit = settings.policy.has_limit
        self.consecutive = ConsecutiveDeadLetters()
        self.is_attempted: Callable[[Scope], bool] = _nobody

    def due(self) -> list[Scope]:
        """Returns the circuits to attempt or send now. Called once a turn, after the poll.

        In the order of the requests. A message that is attempted in this turn is given up only in
        the next, if it is still held: it may succeed.
        """
        for request in self.requests.pending():
            self._share_out(request)
        now: list[Scope] = []
        to_attempt: set[Scope] = set()
        for request in self.requests.pending():
            if isinstance(request.wish, SkipUnreadable | PauseWish | EndPause):
                continue  # not about a circuit: `UnreadableBatches` or `OperatorPauses` handles it
            found = self._find(request.wish)
            if found is None:
                self.requests.answer(request, False)
                continue
            scope, circuit = found
            if self.is_attempted(scope):
                continue  # a worker has its message, which may succeed: in a later turn
            if isinstance(request.wish, Retry):
                if self.circuits.is_paused(scope):
                    continue  # nothing is attempted: once the pause ends
                if self.requests.claim(request):
                    to_attempt.add(scope)
                    now.append(scope)
                    if circuit.held is None:
                        self._end_wait(request, scope, circuit)
            elif scope not in to_attempt and self._takes_effect(request, scope, circuit):
                now.append(scope)
        return now

    def begin(self, held: Held[Message]) -> None:
        """Answers the operator, as the attempt or the sending of the letter starts now."""
        found = self.circuits.holding(held.partition, held.offset)
        if found is None:
            return
        scope, circuit = found
        asked = self.requests.claimed(Retry((held.partition, held.offset)), Retry(scope))
        if not asked:
            return
        place, early_s = (*held.partition, held.offset), self._early_s(circuit)
        self._emit(events.RetriedNow(scope, *place, held.failures.count, early_s))
        for request in asked:
            self.requests.answer(request, True)

    def dead_lettered(self, held: Held[Message]) -> None:
        for request in self.requests.claimed(GiveUp((held.partition, held.offset))):
            self.requests.answer(request, True)

    def is_last(self, case: Case[Message]) -> bool:
        """Whether one more failure would be its last: no attempt follows, here or off the line."""
        held, failures = case.held, case.held.failures
        if not failures or isinstance(case, Leaving):
            return False
        in_a_row = self.consecutive.counted(self.circuits.letters_in_doubt())
        elapsed_s = self.clock.now_s() - failures.first_s
        lineage = lineage_of(read(held.message), self._line)
        decision = decide(
            self.settings.transient_again(failures.strategy),
            failures.count + 1,
            self.settings.policy,
            elapsed_s=elapsed_s,
            consecutive=in_a_row,
            left=Left.of(lineage, failures.first_ms, self.clock.utc_ms()),
        )
        if isinstance(decision, Publish):
            return decision.hop is None
        return isinstance(decision, Recover | Skip | Stop)

    def _share_out(self, request: Request) -> None:
        """Splits a request about several circuits into one for each."""
        match request.wish:
            case Retry(None):
                scopes = [scope for scope, _ in self.circuits]
                truth = bool(scopes)
            case LiftLimit():
                scopes = [scope for scope, each in self.circuits if isinstance(each.case, Limited)]
                truth = True
            case Retry() | GiveUp() | SkipUnreadable() | PauseWish() | EndPause():
                return
            case _:
                assert_never(request.wish)
        if not self.requests.claim(request):
            return
        if isinstance(request.wish, LiftLimit):
            self.consecutive.lift(request.wish.letters)
            self._emit(events.LimitLifted(request.wish.letters, request.wish.reason))
        for scope in scopes:
            self.requests.submit(Retry(scope))
        self.requests.answer(request, truth)

    def _find(self, wish: OperatorRequest) -> tuple[Scope, Circuit[Message]] | None:
        match wish:
            case Retry(Scope() as scope):
                circuit = self.circuits.get(scope)
                return None if circuit is None else (scope, circuit)
            case Retry((partition, offset)) | GiveUp((partition, offset)):
                return self.circuits.holding(partition, offset)
            case _:
                return None

    def _end_wait(self, request: Request, scope: Scope, circuit: Circuit[Message]) -> None:
        """Ends the wait of a circuit without a message: the first to arrive is the probe."""
        if circuit.state == "open":
            early_s = self._early_s(circuit)
            clock = self.clock
            self.circuits.end_wait(scope, clock.now_s(), clock.utc_ms())
            self._emit(events.WaitEnded(scope, early_s))
        self.requests.answer(request, True)

    def _early_s(self, circuit: Circuit[Message]) -> float:
        if circuit.retry_at is None:
            return 0.0
        return max(circuit.retry_at_s - self.clock.now_s(), 0.0)

    def _takes_effect(self, request: Request, scope: Scope, circuit: Circuit[Message]) -> bool:
        """Whether its letter must be sent now; any further try follows the circuit's schedule."""
        case = circuit.case
        if case is None or request.is_claimed:
            return False
        # One that has not failed yet is attempted in this turn: its letter would have no error. Not
        # so one that is only to be returned to its source, which may be gone for good.
        if isinstance(case, Failing) and not case.held.failures:
            return False
        if not self.requests.claim(request):
            return False
        if not (isinstance(case, Leaving) and case.letter.reason == GIVEN_UP):
            route = ToDeadLetters(self.settings.policy.dead_letters)
            given_up = leaving(case.held, read(case.held.message), GIVEN_UP, self._line, route)
            sends = case.sends if isinstance(case, Leaving) else 0
            self.circuits.hold(scope, replace(given_up, sends=sends))
        return True
