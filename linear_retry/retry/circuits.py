"""Keeps a consumer's circuits: which are open, until when, and which message each holds."""

import math
import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeAlias, assert_never

import pybreaker

from linear_retry.events import WaitReason
from linear_retry.log.lines import log_listener_failure
from linear_retry.retry.case import Blocked, Case, Failing, Held, Leaving, Limited, T, ToCallback
from linear_retry.retry.decision import GIVEN_UP
from linear_retry.retry.pauses import Pause, Pauses
from linear_retry.scope import Partition, Scope

Breaker: TypeAlias = pybreaker.CircuitBreaker
CircuitState: TypeAlias = Literal["closed", "open", "half-open"]
BreakerError = pybreaker.CircuitBreakerError
"""Raised by an open breaker of the handler's own: always transient, listed or not."""
_Driven: TypeAlias = tuple[pybreaker.CircuitBreaker, pybreaker.CircuitMemoryStorage]


@dataclass(frozen=True, slots=True)
class Circuit(Generic[T]):
    """A circuit that is open or half-open. `retry_at_s` is on the monotonic clock.

    It is infinite, and `retry_at` None, where an operator is waited for. `case` is None where its
    message was revoked: the first to arrive is the probe.
    """

    state: Literal["open", "half-open"]
    opened_at_s: float
    opened_at: datetime
    retry_at_s: float
    retry_at: datetime | None
    case: Case[T] | None

    @property
    def held(self) -> Held[T] | None:
        """The message of its case."""
        return None if self.case is None else self.case.held


@dataclass(frozen=True, slots=True)
class CircuitView:
    """A read-only view of a circuit; fields are None if no message is held.

    `retry_at` and `since` (when it opened) are aware, UTC; None if the circuit is closed.
    `waits_for` is `failed` for another attempt, `letter` for another try at sending the dead
    letter, `limit` for another attempt because `DeadLetters(limit=...)` is reached, and `operator`
    if it is blocked: then it has no `retry_at`. `pause`: an operator has paused the scope until
    `retry_at`, and `error` says who and why. `group`: another member, which `error` names, attempts
    its messages for the whole group, until `retry_at` at the latest.
    """

    state: CircuitState
    retry_at: datetime | None = None
    failures: int | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    error: str | None = None
    since: datetime | None = None
    waits_for: WaitReason | None = None


_CLOSED = CircuitView("closed")


class Circuits(Generic[T]):
    """The circuits of one consumer, by scope. Closed circuits take no memory.

    `next_retry_at_s` is when the next probe is due, or a pause ends; infinity if nothing waits.
    Of what is paused by order nothing is due. `hears_group`: another member may attempt for all.
    """

    def __init__(self, name: str, *, pauses: bool = True) -> None:
        """`name` is the prefix of each pybreaker's name; the scope follows it.

        `pauses`: an open circuit pauses the partitions in its scope. Else they are read on.
        """
        self._name = name
        self.pauses = pauses
        self._open: dict[Scope, Circuit[T]] = {}
        self.by_order = Pauses()
        self.hears_group = False
        self.all_closed = True
        self.next_retry_at_s = math.inf
        self._places: dict[tuple[str | None, int | None], Scope] = {}
        self._keys: dict[Partition, dict[Scope, None]] = {}
        self._breakers: dict[Scope, _Driven] = {}
        self._asked_for: set[Scope] = set()
        self._choosing = threading.RLock()
        self.breaker(Scope())

    def breaker(self, scope: Scope) -> pybreaker.CircuitBreaker:
        """Returns the scope's pybreaker, whose state and listeners follow the circuit.

        Never call through it: it turns KeyboardInterrupt into CircuitBreakerError. A breaker
        that a user has asked for is kept for its listeners; any other is dropped when its
        circuit closes.
        """
        with self._choosing:
            self._asked_for.add(scope)
            return self._driven(scope)[0]

    # -- questions -------------------------------------------------------------------------

    @property
    def views(self) -> Mapping[Scope, CircuitView]:
        """A snapshot of all circuits, with the whole consumer's. Thread-safe: one atomic copy."""
        views = {scope: _view(circuit) for scope, circuit in self._open.copy().items()}
        for pause in self.by_order.all:
            views[pause.scope] = _paused_view(views.get(pause.scope, _CLOSED), pause)
        return MappingProxyType({Scope(): _CLOSED} | views)

    def __iter__(self) -> Iterator[tuple[Scope, Circuit[T]]]:
        return iter(tuple(self._open.items()))

    def get(self, scope: Scope) -> Circuit[T] | None:
        return self._open.get(scope)

    def holding(
        self, partition: Partition, offset: int | None = None
    ) -> tuple[Scope, Circuit[T]] | None:
        """Returns the circuit that holds this message, with its scope; None: none does.

        Without `offset`: any message of the partition.
        """
        for scope in (*self._over(partition), *self._keys.get(partition, ())):
            held = self._open[scope].held
            if held is not None and held.partition == partition and offset in (None, held.offset):
                return scope, self._open[scope]
        return None

    def keys_of(self, partition: Partition) -> dict[Scope, Circuit[T]]:
        """Returns the circuits of this partition's keys."""
        return {scope: self._open[scope] for scope in self._keys.get(partition, ())}

    def letters_in_doubt(self) -> int:
        """Counts letters sent but not acknowledged: they may exist, and are sent again."""
        cases = (circuit.case for circuit in self._open.values())
        return sum(
            isinstance(case, Leaving) and case.sends > 0 and case.letter.reason != GIVEN_UP
            for case in cases
        )

    def stops(self, partition: Partition) -> bool:
        """Whether `partition` must be paused now."""
        return self.pauses and (
            self.by_order.covers(partition)
            or any(not self._awaits_probe(self._open[scope]) for scope in self._over(partition))
        )

    def wanting_probe(self, partition: Partition) -> Scope | None:
        """Returns the half-open scope, with no held message, whose probe is the next message."""
        for scope in self._over(partition) if self.pauses else ():
            if self._awaits_probe(self._open[scope]):
                return scope
        return None

    def due(self, now_s: float) -> list[Scope]:
        """Returns the scopes that are due for a probe, the earliest `retry_at` first."""
        ready = [
            (circuit.retry_at_s, scope)
            for scope, circuit in self._open.items()
            if circuit.retry_at_s <= now_s and not self._is_waited_for(scope, circuit)
        ]
        return [scope for _, scope in sorted(ready, key=lambda pair: pair[0])]

    def has_wider(self, scope: Scope) -> bool:
        """Whether the circuit over many keys is open above this one, which is a key's."""
        return scope.key is not None and bool(self._over(scope.home))

    def is_paused(self, scope: Scope) -> bool:
        """Whether a pause covers what this circuit is about, but for a letter of it."""
        if not self.by_order:
            return False
        case = self._open[scope].case
        if case is None:
            return self.by_order.covers_all_of(scope)
        is_letter = isinstance(case, Leaving) and not isinstance(case.route, ToCallback)
        return not is_letter and self.by_order.covers(case.held.partition)

    # -- commands --------------------------------------------------------------------------

    def pause(self, pause: Pause) -> None:
        """Lets nothing in its scope, the whole consumer or a topic, be due until the pause ends."""
        self.by_order.put(pause)
        self._note_changed()

    def end_pause(self, pause: Pause) -> None:
        """Lets what is in its scope be due again."""
        self.by_order.take_out(pause)
        self._note_changed()

    def open(
        self, scope: Scope, case: Case[T] | None, now_s: float, delay_s: float, now_ms: int
    ) -> datetime:
        """Opens a circuit, or reopens it after a probe; returns its `retry_at`.

        Without a `case`, that of the whole of many keys: the probe is chosen at `retry_at`.
        """
        since = self._since(scope, now_s, now_ms)
        retry_at = _utc(now_ms) + timedelta(seconds=delay_s)
        self._put(scope, Circuit("open", *since, now_s + delay_s, retry_at, case))
        return retry_at

    def block(self, scope: Scope, case: Blocked[T], now_s: float, now_ms: int) -> None:
        """Opens a circuit as `open` does, until an operator ends its wait."""
        since = self._since(scope, now_s, now_ms)
        self._put(scope, Circuit("open", *since, math.inf, None, case))

    def half_open(self, scope: Scope) -> Circuit[T]:
        """Allows one probe, at `retry_at`: the held message, or the first one to arrive."""
        circuit = replace(self._open[scope], state="half-open")
        self._put(scope, circuit)
        return circuit

    def end_wait(self, scope: Scope, now_s: float, now_ms: int) -> None:
        """Sets `retry_at` to now."""
        self._put(scope, replace(self._open[scope], retry_at_s=now_s, retry_at=_utc(now_ms)))

    def hold(self, scope: Scope, case: Case[T]) -> None:
        """Replaces what the circuit holds: by the probe after a revoke, or with its dead letter."""
        self._put(scope, replace(self._open[scope], case=case))

    def spare(self, scope: Scope, spared_s: float) -> None:
        """Lets so long not count towards `max_elapsed` of the message that is attempted again."""
        case = self._open[scope].case
        if isinstance(case, Failing | Limited):
            failures = case.held.failures
            later = replace(failures, first_s=failures.first_s + spared_s)
            self.hold(scope, replace(case, held=replace(case.held, failures=later)))

    def drop_held(self, partitions: Collection[Partition]) -> None:
        """Drops held messages of revoked or lost partitions; their circuits stay until `retry_at`.

        A half-open circuit is opened again: the other partitions in scope are still paused, and
        `due` must return it once more to resume them.
        """
        for scope, circuit in self:
            if circuit.held is not None and circuit.held.partition in partitions:
                self.let_go(scope)

    def let_go(self, scope: Scope) -> None:
        """Drops the message that the circuit holds, as `drop_held` does."""
        self._put(scope, replace(self._open[scope], state="open", case=None))

    def close(self, scope: Scope, now_s: float) -> float:
        """Closes a circuit, and returns for how many seconds it was open."""
        circuit = self._open.pop(scope)
        if scope.key is None:
            del self._places[scope.topic, scope.partition]
        else:
            self._forget_key(scope)
        self._note_changed()  # after that: what a wider circuit has stopped may be due now
        self._drive(scope, "closed")
        with self._choosing:
            if scope not in self._asked_for:
                del self._breakers[scope]
        return max(now_s - circuit.opened_at_s, 0.0)

    # -- inside ----------------------------------------------------------------------------

    def _over(self, partition: Partition) -> list[Scope]:
        """The circuits that cover this partition. Called per message, and hundreds may be open."""
        places = (None, None), (partition[0], None), partition
        return [self._places[place] for place in places if place in self._places]

    def _is_waited_for(self, scope: Scope, circuit: Circuit[Any]) -> bool:
        """Whether it has no time of its own: its probe is to arrive, or a wider circuit's is.

        Or a pause is to end.
        """
        if self._awaits_probe(circuit) or self.is_paused(scope):
            return True
        return self.has_wider(scope) and not isinstance(circuit.case, Leaving)

    @staticmethod
    def _awaits_probe(circuit: Circuit[Any]) -> bool:
        return circuit.state == "half-open" and circuit.case is None

    def _since(self, scope: Scope, now_s: float, now_ms: int) -> tuple[float, datetime]:
        """When a circuit that opens now was opened first, on both clocks."""
        before = self._open.get(scope)
        since_s = before.opened_at_s if before else now_s
        since = before.opened_at if before else _utc(now_ms)
        return since_s, since

    def _put(self, scope: Scope, circuit: Circuit[T]) -> None:
        before = self._open.get(scope)
        self._open[scope] = circuit
        self._note_changed()
        if scope.key is None:
            self._places[scope.topic, scope.partition] = scope
        else:
            self._keys.setdefault(scope.home, {})[scope] = None
        if before is None or before.state != circuit.state:
            self._drive(scope, circuit.state)

    def _forget_key(self, scope: Scope) -> None:
        keys = self._keys[scope.home]
        del keys[scope]
        if not keys:
            del self._keys[scope.home]

    def _note_changed(self) -> None:
        self.all_closed = not (self._open or self.by_order)
        times = [c.retry_at_s for s, c in self._open.items() if not self._is_waited_for(s, c)]
        self.next_retry_at_s = min([*times, self.by_order.next_end_s])

    def _driven(self, scope: Scope) -> _Driven:
        # Any thread may call this; two threads must not create two breakers for one scope.
        with self._choosing:
            if scope not in self._breakers:
                states = pybreaker.CircuitMemoryStorage(pybreaker.STATE_CLOSED)
                made = pybreaker.CircuitBreaker(
                    fail_max=1,
                    reset_timeout=math.inf,
                    state_storage=states,
                    name=f"{self._name} {scope}",
                )
                self._breakers[scope] = made, states
            return self._breakers[scope]

    def _drive(self, scope: Scope, state: CircuitState) -> None:
        breaker, states = self._driven(scope)
        command = {"open": breaker.open, "half-open": breaker.half_open, "closed": breaker.close}
        try:
            command[state]()
        except Exception:  # noqa: BLE001  (pybreaker calls the user's listeners here)
            log_listener_failure("of a pybreaker")
            # pybreaker 1.4 sets its state only after it has called its listeners.
            states.state = state


def _utc(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _view(circuit: Circuit[Any]) -> CircuitView:
    if circuit.case is None:
        return CircuitView(circuit.state, circuit.retry_at, since=circuit.opened_at)
    held = circuit.case.held
    failures = held.failures
    return CircuitView(
        circuit.state,
        circuit.retry_at,
        failures.count,
        *held.partition,
        held.offset,
        None if failures.error is None else failures.text,
        circuit.opened_at,
        _wait_reason(circuit.case),
    )


def _paused_view(view: CircuitView, pause: Pause) -> CircuitView:
    return replace(
        view,
        state="open",
        retry_at=pause.until,
        since=pause.since,
        error=pause.text,
        waits_for=pause.waits_for,
    )


def _wait_reason(case: Case[Any]) -> WaitReason:
    """Why the message is held: for another attempt, its dead letter, their limit, or a person."""
    match case:
        case Failing():
            return "failed"
        case Leaving():
            return "letter"
        case Limited():
            return "limit"
        case Blocked():
            return "operator"
        case _:
            assert_never(case)
