"""Begins and ends pauses by order of an operator, or of the group."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.retry.case import Failing, Limited
from linear_retry.retry.clock import Clock
from linear_retry.retry.pauses import Pause, PausedFor, Pauses
from linear_retry.scope import Partition, Scope


def _nothing(_: list[Partition]) -> None:
    """Without workers nothing is attempted while a pause begins or ends."""


class Pausing:
    """Pauses what is in a scope after the message in hand, and lets it go on.

    A pause is no failure: what is held keeps its failures, and the time does not count towards
    `max_elapsed`. `on_begin` and `on_end` are for workers.
    """

    def __init__(self, flow_control: FlowControl, assignment: Assignment, clock: Clock) -> None:
        self._flow_control = flow_control
        self._circuits = flow_control.circuits
        self._assignment = assignment
        self._clock = clock
        self.on_begin: Callable[[list[Partition]], None] = _nothing
        self.on_end: Callable[[list[Partition]], None] = _nothing

    @property
    def known(self) -> Pauses:
        """The pauses that have begun."""
        return self._circuits.by_order

    def begin(
        self, scope: Scope, waits_for: PausedFor, for_s: float, by: str, reason: str
    ) -> Pause:
        """Begins a pause, or replaces the one before, which remains its beginning."""
        now_s, now_ms = self._clock.now_s(), self._clock.utc_ms()
        now = datetime.fromtimestamp(now_ms / 1000, UTC)
        before = self.known.get(waits_for, scope)
        pause = Pause(
            scope=scope,
            waits_for=waits_for,
            since_s=now_s if before is None else before.since_s,
            since=now if before is None else before.since,
            until_s=now_s + for_s,
            until=now + timedelta(seconds=for_s),
            by=by,
            reason=reason,
        )
        self._circuits.pause(pause)
        self.on_begin(self._covered(scope))
        if self._circuits.pauses:
            self._flow_control.pause(scope)
        return pause

    def look_again(self, pause: Pause, at_s: float) -> None:
        """Sets when a pause is looked at again, whatever was said of its end."""
        self._circuits.pause(replace(pause, until_s=at_s))

    def end(self, pause: Pause) -> float:
        """Ends a pause, and returns how many seconds it has lasted."""
        self._circuits.end_pause(pause)
        paused_s = self._clock.now_s() - pause.since_s
        self._spare(pause.scope, paused_s)
        covered = self._covered(pause.scope)
        self.on_end(covered)
        for partition in covered if self._circuits.pauses else ():
            self._flow_control.resume(Scope(*partition))
        return paused_s

    # -- inside ----------------------------------------------------------------------------

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
