"""The wide circuit: tells an outage from keys that fail by themselves, and stops all in one."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from linear_retry.consumer.settings.by_key import ByKey
from linear_retry.events import CircuitClosed, CircuitOpened, Event, ProbeFailed
from linear_retry.kafka import Message
from linear_retry.retry.case import Blocked, Failing, Held, Limited, waiting
from linear_retry.retry.circuits import Circuit, Circuits
from linear_retry.retry.clock import Clock
from linear_retry.retry.decision import Delays
from linear_retry.scope import Partition, Scope

_LEAST_S = 0.1


@dataclass(slots=True)
class _Wide:
    """What is known of one wide circuit, from a first failure until all is as before.

    `failed_first` are the keys that failed for the first time, since `since_s`, with no success
    in between. While it is open, `probing` is the lane with the probe, and `failed_probes` is how
    many have failed. After it has closed at most `at_once` run; None: as many as there are workers.
    """

    failed_first: set[Scope] = field(default_factory=set)
    since_s: float = 0.0
    failed_probes: int = 0
    probing: Scope | None = None
    is_held_next: bool = False
    at_once: int | None = None


class WideCircuits:
    """Opens a wide circuit where many keys fail first and none succeeds; then lets probes through.

    A key that is held already says nothing new: however many fail for ever, they can neither open
    it nor keep it open, as every second probe is of a key that has not failed.
    """

    def __init__(
        self,
        by_key: ByKey,
        concurrency: int,
        circuits: Circuits[Message],
        clock: Clock,
        strategy: Delays,
        emit: Callable[[Event], None],
    ) -> None:
        self._by_key = by_key
        self._concurrency = concurrency
        self._circuits = circuits
        self._clock = clock
        self._strategy = strategy
        self._emit = emit
        self._wide: dict[Scope, _Wide] = {}

    # -- questions -------------------------------------------------------------------------

    def over(self, lane: Scope) -> Scope:
        """Returns the scope of the wide circuit that stops this lane."""
        return Scope.of(self._by_key.opens, lane.home)

    def may_begin(self, lane: Scope, running: Collection[Scope]) -> bool:
        """Whether messages of this lane may be begun, beside those that are `running`."""
        wide = self._above(lane)
        if wide is None:
            return True
        scope = self.over(lane)
        if self._circuits.get(scope) is not None:
            return False
        at_once = wide.at_once
        return at_once is None or sum(self.over(each) == scope for each in running) < at_once

    def begins_one(self, lane: Scope) -> bool:
        """Whether only one message at a time is begun: it closed a moment ago."""
        wide = self._above(lane)
        return wide is not None and wide.at_once is not None

    def awaiting_probe(self) -> Iterator[Scope]:
        """Yields those whose wait is over, and that have no probe yet."""
        for scope, wide in self._wide.items():
            circuit = self._circuits.get(scope)
            if circuit is None or circuit.state != "half-open" or wide.probing is not None:
                continue
            if not self._circuits.is_paused(scope):
                yield scope

    def prefers_held(self, scope: Scope) -> bool:
        """Whether it is the turn of a held key: they take turns with keys that have not failed."""
        return self._of(scope).is_held_next

    def due_key(self, scope: Scope) -> Scope | None:
        """Returns the held key whose next attempt is due longest; None: none is due."""
        now_s = self._clock.now_s()
        due = [
            (circuit.retry_at_s, lane)
            for lane, circuit in self._keys(scope)
            if circuit.retry_at_s <= now_s and isinstance(circuit.case, Failing | Limited)
            if not self._circuits.is_paused(lane)
        ]
        return min(due, key=lambda pair: pair[0])[1] if due else None

    def holds_no_more(self, lane: Scope) -> bool:
        """Whether a key that fails now for the first time is not held: it is begun again later."""
        wide = self._above(lane)
        is_probe = wide is not None and wide.probing == lane
        return is_probe or len(self._keys(self.over(lane))) >= self._by_key.most_held

    # -- what happens ----------------------------------------------------------------------

    def begin_probe(self, scope: Scope, lane: Scope, *, is_held: bool) -> None:
        """Notes that this lane has the probe."""
        wide = self._of(scope)
        wide.probing, wide.is_held_next = lane, not is_held

    def failed_first(self, lane: Scope, held: Held[Message]) -> None:
        """Counts a first failure, which `held` has; opens the circuit, or waits on."""
        scope = self.over(lane)
        wide = self._of(scope)
        if wide.probing == lane:
            self._wait_on(scope, wide, held)
            return
        if not wide.failed_first:
            wide.since_s = self._clock.now_s()
        wide.failed_first.add(lane)
        is_outage = len(wide.failed_first) >= self._by_key.trip
        is_full = len(self._keys(scope)) >= self._by_key.most_held
        if (is_outage or is_full) and self._circuits.get(scope) is None:
            wide.at_once, wide.failed_probes = None, 1
            self._open(scope, wide, held)

    def failed_again(self, lane: Scope, held: Held[Message]) -> None:
        """Notes another failure of a key that is held: it matters only as the probe."""
        wide = self._above(lane)
        if wide is not None and wide.probing == lane:
            self._wait_on(self.over(lane), wide, held)

    def succeeded(self, lane: Scope, begun_s: float) -> None:
        """Notes a success; one that began before the first of the failures does not count."""
        wide = self._above(lane)
        if wide is None:
            return
        scope = self.over(lane)
        if wide.failed_first and begun_s < wide.since_s and wide.probing != lane:
            return
        wide.failed_first.clear()
        if self._circuits.get(scope) is not None:
            open_s = self._circuits.close(scope, self._clock.now_s())
            self._spare(scope, lane, open_s)
            wide.probing, wide.at_once = None, 1
            self._emit(CircuitClosed(scope, "recovered", open_s))
        elif wide.at_once is not None:
            wide.at_once *= 2
        if wide.at_once is None or wide.at_once >= self._concurrency:
            del self._wide[scope]

    def begin_slowly(self, partitions: Iterable[Partition]) -> None:
        """Begins one key at a time, then twice as many: nothing of these was attempted for long."""
        for scope in {Scope.of(self._by_key.opens, partition) for partition in partitions}:
            if self._circuits.get(scope) is None:  # else it does so once it closes
                self._of(scope).at_once = 1

    def ended(self, lane: Scope) -> None:
        """Notes that what came of this lane does not count: it is the probe of nobody."""
        for scope, wide in self._wide.items():
            if wide.probing == lane:
                wide.probing = None
                if self._circuits.get(scope) is not None:
                    self._circuits.half_open(scope)

    # -- inside ----------------------------------------------------------------------------

    def _above(self, lane: Scope) -> _Wide | None:
        """Returns what is known of the circuit that stops this lane: nearly always nothing."""
        return self._wide.get(self.over(lane)) if self._wide else None

    def _of(self, scope: Scope) -> _Wide:
        return self._wide.setdefault(scope, _Wide())

    def _keys(self, scope: Scope) -> list[tuple[Scope, Circuit[Message]]]:
        """The keys that are held, without those that are blocked: they wait for no outage's end."""
        return [
            (lane, circuit)
            for lane, circuit in self._circuits
            if lane.key is not None and self.over(lane) == scope
            if not isinstance(circuit.case, Blocked)
        ]

    def _wait_on(self, scope: Scope, wide: _Wide, held: Held[Message]) -> None:
        wide.probing = None
        wide.failed_probes += 1
        self._open(scope, wide, held)

    def _open(self, scope: Scope, wide: _Wide, held: Held[Message]) -> None:
        """Opens it, or opens it again after the failure of a probe, `held`."""
        is_new = self._circuits.get(scope) is None
        delay_s = self._delay_s(wide.failed_probes)
        now_s, now_ms = self._clock.now_s(), self._clock.utc_ms()
        at = self._circuits.open(scope, None, now_s, delay_s, now_ms)
        self._emit(
            waiting(CircuitOpened, scope, held, delay_s, at)
            if is_new
            else waiting(ProbeFailed, scope, held, delay_s, at)
        )

    def _delay_s(self, failures: int) -> float:
        """The strategy's delay, or its last one; at most `probe_max_s`."""
        strategy = self._strategy
        given = strategy.delay_s(min(failures, max(len(strategy), 1)))
        if given is None:
            return self._by_key.probe_max_s
        # A strategy of immediate retries ends soon for a message, and never for an outage.
        return min(max(given, _LEAST_S), self._by_key.probe_max_s)

    def _spare(self, scope: Scope, probe: Scope, open_s: float) -> None:
        """Lets the time for which it was open not count towards `max_elapsed` of the others."""
        for lane, circuit in self._keys(scope):
            if lane != probe and isinstance(circuit.case, Failing):
                self._circuits.spare(lane, open_s)
