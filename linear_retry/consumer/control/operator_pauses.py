"""Begins and ends the pauses that operators wish for."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from linear_retry.consumer.ownership.requests import EndPause, PauseWish, Requests
from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.events import Event, PausedByHand, PauseEnded
from linear_retry.retry.case import Failing, Limited
from linear_retry.retry.clock import Clock
from linear_retry.retry.pauses import Pause
from linear_retry.scope import Partition, Scope

_MOST = 100
"""Pauses at once: anyone who may write to the control topic could name any number of topics."""


def _nothing(_: list[Partition]) -> None:
    """Without workers nothing is attempted while a pause begins or ends."""


class OperatorPauses:
    """Carries out requests for pauses on the owner thread, and ends those that are over.

    A pause is no failure: what is held keeps its failures, and the time does not count towards
    `max_elapsed`. No pause lasts longer than `longest_s`.
    """

    def __init__(
        self,
        flow_control: FlowControl,
        assignment: Assignment,
        requests: Requests,
        clock: Clock,
        longest_s: float,
        emit: Callable[[Event], None],
    ) -> None:
        self._flow_control = flow_control
        self._circuits = flow_control.circuits
        self._assignment = assignment
        self._requests = requests
        self._clock = clock
        self._longest_s = longest_s
        self._emit = emit
        self.on_begin: Callable[[list[Partition]], None] = _nothing
        self.on_end: Callable[[list[Partition]], None] = _nothing

    @property
    def due_at_s(self) -> float:
        """When the first pause is over."""
        return self._circuits.by_hand.next_end_s

    def consider(self) -> None:
        """Begins and ends pauses as requested. Called once a turn, after the poll."""
        for request in self._requests.pending():
            match request.wish:
                case PauseWish() as wish if self._requests.claim(request):
                    self._requests.answer(request, self._begin(wish))
                case EndPause() as wish if self._requests.claim(request):
                    ending = list(filter(wish.ends, self._circuits.by_hand.views))
                    for each in ending:
                        self._end(each, is_closed=True)
                    self._requests.answer(request, bool(ending))

    def tick(self) -> None:
        """Ends the pauses that are over."""
        now_s = self._clock.now_s()
        for scope, pause in self._circuits.by_hand.views.items():
            if pause.until_s <= now_s:
                self._end(scope, is_closed=False)

    # -- inside ----------------------------------------------------------------------------

    def _begin(self, wish: PauseWish) -> bool:
        """Returns whether it has begun: not if its end has passed, nor as one of too many."""
        now_s, now_ms = self._clock.now_s(), self._clock.utc_ms()
        left_s = min((wish.until_ms - now_ms) / 1000, self._longest_s)
        known = self._circuits.by_hand.views
        before = known.get(wish.scope)
        if left_s <= 0 or (before is None and len(known) >= _MOST):
            return False
        now = datetime.fromtimestamp(now_ms / 1000, UTC)
        pause = Pause(
            since_s=now_s if before is None else before.since_s,
            since=now if before is None else before.since,
            until_s=now_s + left_s,
            until=now + timedelta(seconds=left_s),
            by=wish.by,
            reason=wish.reason,
        )
        self._circuits.pause(wish.scope, pause)
        self.on_begin(self._covered(wish.scope))
        if self._circuits.pauses:
            self._flow_control.pause(wish.scope)
        self._emit(PausedByHand(wish.scope, wish.by, wish.reason, pause.until))
        return True

    def _end(self, scope: Scope, *, is_closed: bool) -> None:
        pause = self._circuits.end_pause(scope)
        if pause is None:
            return
        paused_s = self._clock.now_s() - pause.since_s
        self._spare(scope, paused_s)
        covered = self._covered(scope)
        self.on_end(covered)
        for partition in covered if self._circuits.pauses else ():
            self._flow_control.resume(Scope(*partition))
        self._emit(PauseEnded(scope, is_closed, paused_s))

    def _covered(self, scope: Scope) -> list[Partition]:
        return [key for key in self._assignment.partitions if scope.covers(key)]

    def _spare(self, scope: Scope, paused_s: float) -> None:
        """Lets the pause not count towards `max_elapsed` of what was held meanwhile.

        The circuit over many keys does so itself once it closes.
        """
        for circuit_scope, circuit in self._circuits:
            case = circuit.case
            if not isinstance(case, Failing | Limited) or self._circuits.has_wider(circuit_scope):
                continue
            if scope.covers(case.held.partition):
                self._circuits.spare(circuit_scope, paused_s)
