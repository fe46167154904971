"""The circuits of a consumer: which are open, until when, and what each holds."""

import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeAlias

import pybreaker

from linear_retry.events import WaitReason
from linear_retry.log import log_listener_failure
from linear_retry.retry.decision import GIVEN_UP
from linear_retry.retry.held import Held, T
from linear_retry.scope import Partition, Scope

Breaker: TypeAlias = pybreaker.CircuitBreaker
CircuitState: TypeAlias = Literal["closed", "open", "half-open"]
BreakerError = pybreaker.CircuitBreakerError
"""A breaker of the handler's own is open: transient without being listed."""
_Driven: TypeAlias = tuple[pybreaker.CircuitBreaker, pybreaker.CircuitMemoryStorage]


@dataclass(frozen=True, slots=True)
class Circuit(Generic[T]):
    """A circuit that is not closed. `retry_at_s` is on the clock that waits are measured by."""

    state: Literal["open", "half-open"]
    opened_at_s: float
    opened_at: datetime
    retry_at_s: float
    retry_at: datetime
    held: Held[T] | None


@dataclass(frozen=True, slots=True)
class CircuitView:
    """A read-only view of a circuit; fields are None if no message is held.

    `retry_at`, and `since`, when it opened, are aware, UTC; None if it is closed. `waits_for`:
    `failed`, another attempt; `letter`, the sending of its dead letter; `limit`, another attempt,
    since `DeadLetters(limit=...)` allows no more letters.
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
    """The circuits of one consumer, by scope. Only what is not closed takes room.

    `all_closed`: none takes any. `next_retry_at_s` is when the next probe is due; infinity where
    none is.
    """

    def __init__(self, name: str) -> None:
        """`name` is the pybreakers' name, followed by the scope."""
        self._name = name
        self._open: dict[Scope, Circuit[T]] = {}
        self.all_closed = True
        self.next_retry_at_s = float("inf")
        self._places: dict[tuple[str | None, int | None], Scope] = {}
        self._breakers: dict[Scope, _Driven] = {}
        self._asked_for: set[Scope] = set()
        self._choosing = threading.RLock()
        self.breaker(Scope())

    def breaker(self, scope: Scope) -> pybreaker.CircuitBreaker:
        """The scope's pybreaker: it follows the circuit, for its listeners and its state.

        Never call through it: it turns KeyboardInterrupt into CircuitBreakerError. Once asked for
        it is kept, for its listeners; any other goes as its circuit closes.
        """
        with self._choosing:
            self._asked_for.add(scope)
            return self._driven(scope)[0]

    # -- questions -------------------------------------------------------------------------

    @property
    def views(self) -> Mapping[Scope, CircuitView]:
        """As they are now, the whole consumer's among them. For any thread: copied in one step."""
        views = {scope: _view(circuit) for scope, circuit in self._open.copy().items()}
        return MappingProxyType({Scope(): _CLOSED} | views)

    def __iter__(self) -> Iterator[tuple[Scope, Circuit[T]]]:
        return iter(tuple(self._open.items()))

    def get(self, scope: Scope) -> Circuit[T] | None:
        return self._open.get(scope)

    def holding(self, partition: Partition, offset: int) -> tuple[Scope, Circuit[T]] | None:
        """The circuit that holds this message; None where none does."""
        for scope in self._over(partition):
            circuit = self._open[scope]
            held = circuit.held
            if held is not None and (held.partition, held.offset) == (partition, offset):
                return scope, circuit
        return None

    def letters_in_doubt(self) -> int:
        """Those that were sent and not acknowledged: they may be there, and are sent once more."""
        held = (circuit.held for circuit in self._open.values())
        letters = (each.letter for each in held if each is not None and each.sends)
        return sum(letter is not None and letter.reason != GIVEN_UP for letter in letters)

    def stops(self, partition: Partition) -> bool:
        """Whether `partition` must stand still now: the gate."""
        return any(not self._awaits_probe(self._open[scope]) for scope in self._over(partition))

    def wanting_probe(self, partition: Partition) -> Scope | None:
        """The half-open scope without a held message that the next message probes."""
        for scope in self._over(partition):
            if self._awaits_probe(self._open[scope]):
                return scope
        return None

    def due(self, now_s: float) -> list[Scope]:
        """Scopes whose `retry_at` has come and that have not been probed, the earliest first."""
        ready = [
            (circuit.retry_at_s, scope)
            for scope, circuit in self._open.items()
            if circuit.retry_at_s <= now_s and not self._awaits_probe(circuit)
        ]
        return [scope for _, scope in sorted(ready, key=lambda pair: pair[0])]

    # -- commands --------------------------------------------------------------------------

    def open(
        self, scope: Scope, held: Held[T], now_s: float, delay_s: float, now_ms: int
    ) -> Circuit[T]:
        """Open, or open again after a probe: the time it was first opened stays."""
        before = self._open.get(scope)
        now = datetime.fromtimestamp(now_ms / 1000, UTC)
        circuit = Circuit(
            "open",
            opened_at_s=before.opened_at_s if before else now_s,
            opened_at=before.opened_at if before else now,
            retry_at_s=now_s + delay_s,
            retry_at=now + timedelta(seconds=delay_s),
            held=held,
        )
        self._put(scope, circuit)
        return circuit

    def half_open(self, scope: Scope) -> Circuit[T]:
        """`retry_at` has come: the held message, or the first to arrive, may be attempted."""
        circuit = replace(self._open[scope], state="half-open")
        self._put(scope, circuit)
        return circuit

    def end_wait(self, scope: Scope, now_s: float, now_ms: int) -> None:
        """`retry_at` is now."""
        now = datetime.fromtimestamp(now_ms / 1000, UTC)
        self._put(scope, replace(self._open[scope], retry_at_s=now_s, retry_at=now))

    def hold(self, scope: Scope, held: Held[T]) -> None:
        """The first message after a revoke has arrived, the probe; or it has a letter now."""
        self._put(scope, replace(self._open[scope], held=held))

    def drop_held(self, partitions: Collection[Partition]) -> None:
        """Revoked or lost: the next owner counts from zero; the circuit stays until `retry_at`.

        Open again where it was half-open: what else is in scope is paused still, and has to be
        let go by the next look at what is due.
        """
        for scope, circuit in self:
            if circuit.held is not None and circuit.held.partition in partitions:
                self._put(scope, replace(circuit, state="open", held=None))

    def close(self, scope: Scope, now_s: float) -> float:
        """Closed again; how long it was not, in seconds."""
        circuit = self._open.pop(scope)
        self._note_changed()
        del self._places[scope.topic, scope.partition]
        self._drive(scope, "closed")
        with self._choosing:
            if scope not in self._asked_for:
                del self._breakers[scope]
        return max(now_s - circuit.opened_at_s, 0.0)

    # -- inside ----------------------------------------------------------------------------

    def _over(self, partition: Partition) -> list[Scope]:
        """What is not closed and covers it. Asked for each message, and hundreds may be open."""
        places = (None, None), (partition[0], None), partition
        return [self._places[place] for place in places if place in self._places]

    @staticmethod
    def _awaits_probe(circuit: Circuit[Any]) -> bool:
        return circuit.state == "half-open" and circuit.held is None

    def _put(self, scope: Scope, circuit: Circuit[T]) -> None:
        before = self._open.get(scope)
        self._open[scope] = circuit
        self._note_changed()
        self._places[scope.topic, scope.partition] = scope
        if before is None or before.state != circuit.state:
            self._drive(scope, circuit.state)

    def _note_changed(self) -> None:
        self.all_closed = not self._open
        times = [c.retry_at_s for c in self._open.values() if not self._awaits_probe(c)]
        self.next_retry_at_s = min(times, default=float("inf"))

    def _driven(self, scope: Scope) -> _Driven:
        # Any thread may ask, and a second one would be one that nobody drives.
        with self._choosing:
            if scope not in self._breakers:
                states = pybreaker.CircuitMemoryStorage(pybreaker.STATE_CLOSED)
                made = pybreaker.CircuitBreaker(
                    fail_max=1,
                    reset_timeout=float("inf"),
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
        except Exception:  # noqa: BLE001  (pybreaker calls the user's listeners in there)
            log_listener_failure("of a pybreaker")
            # pybreaker 1.4 notes its state only after its listeners have been called.
            states.state = state


def _view(circuit: Circuit[Any]) -> CircuitView:
    held = circuit.held
    if held is None:
        return CircuitView(circuit.state, circuit.retry_at, since=circuit.opened_at)
    error = None if held.error is None else held.error_text
    place = (*held.partition, held.offset)
    return CircuitView(
        circuit.state,
        circuit.retry_at,
        held.failures,
        *place,
        error,
        circuit.opened_at,
        _wait_reason(held),
    )


def _wait_reason(held: Held[Any]) -> WaitReason:
    """Another attempt, the sending of its letter, or the end of a row of dead letters."""
    if held.letter is not None:
        return "letter"
    return "limit" if held.at_limit else "failed"
