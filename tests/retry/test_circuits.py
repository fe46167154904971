"""Circuits open, half-open and close, and anyone may see how they are."""

import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pybreaker
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.kafka import Message
from linear_retry.retry.case import Case, Failing, Failures, Held
from linear_retry.retry.circuits import Circuit, Circuits, CircuitView
from linear_retry.retry.decision import Transient
from linear_retry.retry.failed_attempt import FailedAttempt, describe_failure
from linear_retry.scope import Partition, Scope

_ALL, _ORDERS, _ONE = Scope(), Scope("orders"), Scope("orders", 0)
_NOW_MS = 1_767_225_600_000
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_P0, _P1, _OTHER = ("orders", 0), ("orders", 1), ("refunds", 0)


def _failing(partition: Partition = _P0, offset: int = 7, failures: int = 0) -> Failing[Message]:
    message = Message(topic=partition[0], partition=partition[1], offset=offset)
    return Failing(Held(message, partition, offset, epoch=1, failures=Failures(failures)))


def _failed(text: str) -> FailedAttempt:
    return describe_failure(OSError(text), Transient(), keep=False)


def _circuits() -> Circuits[Message]:
    return Circuits("billing")


def _open(
    circuits: Circuits[Message],
    scope: Scope,
    case: Case[Message],
    delay_s: float = 5.0,
    now_s: float = 100.0,
) -> None:
    circuits.open(scope, case, now_s, delay_s, _NOW_MS)


def test_what_a_wider_circuit_has_stopped_is_due_once_that_closes() -> None:
    """The bug: nothing was due until another circuit changed."""
    circuits, key = _circuits(), replace(_ONE, key="a1")
    _open(circuits, key, _failing(failures=1))
    _open(circuits, _ALL, _failing(failures=1, offset=8))
    circuits.close(_ALL, 102.0)
    assert 105.0 == circuits.next_retry_at_s


def test_the_cycle_open_half_open_closed() -> None:
    """It opens until `retry_at`, half-opens with the held message, and tells how long it lasted."""
    circuits, case = _circuits(), _failing(failures=1)
    retry_at = circuits.open(_ALL, case, 100.0, 5.0, _NOW_MS)
    assert _NOW + timedelta(seconds=5) == retry_at
    assert Circuit("open", 100.0, _NOW, 105.0, retry_at, case) == circuits.get(_ALL)
    half_open = circuits.half_open(_ALL)
    assert ("half-open", case) == (half_open.state, half_open.case)
    assert 6.5 == circuits.close(_ALL, 106.5)
    assert circuits.get(_ALL) is None
    assert circuits.all_closed


def test_a_failed_probe_keeps_the_time_it_was_first_opened() -> None:
    """Open again: a new `retry_at`, and `open_s` still counts from the first failure."""
    circuits = _circuits()
    _open(circuits, _ALL, _failing(), now_s=100.0)
    circuits.half_open(_ALL)
    failing = _failing(failures=2)
    retry_at = circuits.open(_ALL, failing, 105.0, 30.0, _NOW_MS + 5000)
    assert Circuit("open", 100.0, _NOW, 135.0, retry_at, failing) == circuits.get(_ALL)
    assert 40.0 == circuits.close(_ALL, 140.0)


def test_a_view_says_since_when_whatever_its_probes_come_to() -> None:
    """`since` is when the circuit was opened first, not when its last probe failed."""
    circuits = _circuits()
    circuits.open(_ALL, _failing(failures=1), 100.0, 5.0, _NOW_MS)
    circuits.open(_ALL, _failing(failures=2), 130.0, 5.0, _NOW_MS + 30_000)
    assert _NOW == circuits.views[_ALL].since


def test_a_clock_that_steps_back_opens_for_no_negative_time() -> None:
    """`open_s` is never below 0."""
    circuits = _circuits()
    _open(circuits, _ALL, _failing(), now_s=100.0)
    assert 0.0 == circuits.close(_ALL, 99.0)


@pytest.mark.parametrize(
    ("scope", "stopped"),
    [(_ALL, {_P0, _P1, _OTHER}), (_ORDERS, {_P0, _P1}), (_ONE, {_P0})],
    ids=str,
)
def test_a_circuit_stops_what_is_in_scope(scope: Scope, stopped: set[Partition]) -> None:
    """Open, and half-open with a held message: everything in scope stands still."""
    circuits = _circuits()
    _open(circuits, scope, _failing())
    assert stopped == {item for item in (_P0, _P1, _OTHER) if circuits.stops(item)}
    circuits.half_open(scope)
    assert stopped == {item for item in (_P0, _P1, _OTHER) if circuits.stops(item)}
    assert circuits.wanting_probe(_P0) is None


def test_after_a_revoke_the_first_message_is_the_probe() -> None:
    """The circuit stays until `retry_at`, then lets one message come, and stops for that one."""
    circuits = _circuits()
    _open(circuits, _ALL, _failing())
    circuits.drop_held({_P0})
    assert circuits.stops(_P0)
    assert circuits.wanting_probe(_P0) is None
    assert [_ALL] == circuits.due(105.0)
    circuits.half_open(_ALL)
    assert not circuits.stops(_P0)
    assert _ALL == circuits.wanting_probe(_P1)
    assert [] == circuits.due(1e12)
    probe = _failing(_P1, 3)
    circuits.hold(_ALL, probe)
    assert circuits.stops(_P0)
    assert circuits.wanting_probe(_P0) is None
    assert [_ALL] == circuits.due(105.0)
    circuit = circuits.get(_ALL)
    assert circuit is not None
    assert probe == circuit.case


def test_only_the_held_message_of_what_was_revoked_is_dropped() -> None:
    """Other partitions' revoke leaves the held message, its count and its `retry_at` alone."""
    circuits, case = _circuits(), _failing(failures=3)
    _open(circuits, _ALL, case)
    before = circuits.get(_ALL)
    circuits.drop_held({_P1, _OTHER})
    assert before == circuits.get(_ALL)
    circuits.drop_held({_P0})
    after = circuits.get(_ALL)
    assert before is not None
    assert after is not None
    assert (None, before.retry_at_s) == (after.case, after.retry_at_s)


def test_a_held_message_is_found_by_its_place() -> None:
    """In whichever scope it is held; beside it, behind it, or dropped, it is not."""
    circuits = _circuits()
    _open(circuits, Scope("a", 0), _failing(("a", 0)), delay_s=30.0)
    _open(circuits, Scope("a", 1), _failing(("a", 1)), delay_s=30.0)
    offset = _failing(("a", 1)).held.offset
    found = circuits.holding(("a", 1), offset)
    assert found is not None
    assert (Scope("a", 1), circuits.get(Scope("a", 1))) == found
    assert circuits.holding(("a", 1), offset + 1) is None
    assert circuits.holding(("a", 2), offset) is None
    circuits.drop_held([("a", 1)])
    assert circuits.holding(("a", 1), offset) is None


def test_what_is_due_comes_in_order_of_time() -> None:
    """The earliest first; exactly at `retry_at` it is due, and until it has nothing to attempt."""
    circuits = _circuits()
    _open(circuits, Scope("a"), _failing(("a", 0)), delay_s=30.0)
    _open(circuits, Scope("b"), _failing(("b", 0)), delay_s=10.0)
    _open(circuits, Scope("c"), _failing(("c", 0)), delay_s=20.0)
    assert 110.0 == circuits.next_retry_at_s
    assert [] == circuits.due(109.999)
    assert [Scope("b")] == circuits.due(110.0)
    assert [Scope("b"), Scope("c"), Scope("a")] == circuits.due(130.0)
    circuits.half_open(Scope("b"))
    assert 110.0 == circuits.next_retry_at_s
    circuits.drop_held({("b", 0)})
    circuits.half_open(Scope("b"))
    assert 120.0 == circuits.next_retry_at_s


def test_a_held_message_counts_its_failures() -> None:
    """Each failure adds one; the first time stays, the last time and the error are the newest."""
    first, second = _failed("first"), _failed("second")
    once = Failures().with_one_more(first, 1.5, 1000, "")
    assert Failures(1, 1.5, 1000, 1000, first.error, first.text) == once
    twice = once.with_one_more(second, 3.0, 2500, "")
    assert Failures(2, 1.5, 1000, 2500, second.error, second.text) == twice


class _Listener(pybreaker.CircuitBreakerListener):
    """Writes down what it is told, and raises where it is asked to."""

    def __init__(self, *, raises: bool = False) -> None:
        self.changes: list[tuple[str | None, str]] = []
        self.raises = raises

    def state_change(self, cb: Any, old_state: Any, new_state: Any) -> None:
        self.changes.append((old_state.name if old_state else None, new_state.name))
        if self.raises:
            raise LookupError("bug in the listener")


def test_pybreakers_state_follows() -> None:
    """Its state, its name and its listeners go with the circuit; opening again is no change."""
    circuits, listener = _circuits(), _Listener()
    breaker = circuits.breaker(_ALL)
    breaker.add_listener(listener)
    _open(circuits, _ALL, _failing())
    assert pybreaker.STATE_OPEN == breaker.current_state
    circuits.drop_held({_P0})
    circuits.half_open(_ALL)
    assert pybreaker.STATE_HALF_OPEN == breaker.current_state
    _open(circuits, _ALL, _failing())
    circuits.half_open(_ALL)
    circuits.close(_ALL, 106.0)
    assert pybreaker.STATE_CLOSED == breaker.current_state
    assert [
        ("closed", "open"),
        ("open", "half-open"),
        ("half-open", "open"),
        ("open", "half-open"),
        ("half-open", "closed"),
    ] == listener.changes
    assert "billing consumer" == breaker.name
    assert breaker is circuits.breaker(_ALL)


def test_a_breaker_that_was_asked_for_is_kept() -> None:
    """Its listeners are somebody's, who wants to learn of the next time too."""
    circuits, listener = _circuits(), _Listener()
    circuits.breaker(_ONE).add_listener(listener)
    for _ in range(2):
        _open(circuits, _ONE, _failing())
        circuits.close(_ONE, 106.0)
    assert [("closed", "open"), ("open", "closed")] * 2 == listener.changes


@pytest.mark.parametrize("raises_until", ["always", "open"])
def test_a_raising_pybreaker_listener_is_contained(
    raises_until: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is reported, and neither the circuit nor pybreaker's state is disturbed.

    pybreaker notes its state after its listeners: with one that raised it stayed closed for ever.
    """
    circuits, listener = _circuits(), _Listener(raises=True)
    breaker = circuits.breaker(_ALL)
    breaker.add_listener(listener)
    _open(circuits, _ALL, _failing())
    assert ("open", 1) == (breaker.current_state, len(caplog.records))
    listener.raises = raises_until == "always"
    circuits.half_open(_ALL)
    assert ("half-open", "half-open") == (breaker.current_state, circuits.views[_ALL].state)
    circuits.close(_ALL, 101.0)
    assert ("closed", "closed") == (breaker.current_state, circuits.views[_ALL].state)
    assert (3 if listener.raises else 1) == len(caplog.records)


def test_a_view_says_what_is_held() -> None:
    """State, times, failures, coordinates and error; None where nothing is held."""
    circuits = _circuits()
    failures = Failures(1).with_one_more(_failed("down"), 0.0, 0, "")
    held = replace(_failing(_P1, 42).held, failures=failures)
    _open(circuits, _ALL, Failing(held))
    retry_at = _NOW + timedelta(seconds=5)
    expected = CircuitView("open", retry_at, 2, "orders", 1, 42, "OSError('down')", _NOW, "failed")
    assert {_ALL: expected} == circuits.views
    circuits.drop_held({_P1})
    assert {_ALL: CircuitView("open", retry_at, since=_NOW)} == circuits.views
    circuits.half_open(_ALL)
    circuits.hold(_ALL, _failing(_P0, 7))
    view = CircuitView("half-open", retry_at, 0, "orders", 0, 7, None, _NOW, "failed")
    assert {_ALL: view} == circuits.views
    circuits.close(_ALL, 106.0)
    assert {_ALL: CircuitView("closed")} == circuits.views


def test_a_view_once_taken_stays_as_it_is() -> None:
    """A snapshot for any thread: nobody can change it, and what comes later is not in it."""
    circuits = _circuits()
    before = circuits.views
    _open(circuits, _ALL, _failing())
    assert "closed" == before[_ALL].state
    with pytest.raises(TypeError):
        cast("dict[Scope, CircuitView]", before)[_ALL] = CircuitView("open")
    assert isinstance(before, Mapping)


_scopes = st.sampled_from([_ALL, _ORDERS, Scope("refunds"), _ONE, Scope("orders", 1)])


@given(st.lists(st.tuples(_scopes, st.sampled_from(["open", "half", "drop", "close"]))))
def test_only_what_is_not_closed_takes_room(steps: list[tuple[Scope, str]]) -> None:
    """After any history there is an entry exactly for what was opened and not closed since."""
    circuits, expected = _circuits(), set[Scope]()
    for scope, step in steps:
        if step == "open":
            _open(circuits, scope, _failing())
            expected.add(scope)
        elif step == "drop":
            circuits.drop_held({_P0})
        elif scope in expected and step == "half":
            circuits.half_open(scope)
        elif scope in expected:
            circuits.close(scope, 200.0)
            expected.discard(scope)
        assert expected == {open_scope for open_scope, _ in circuits}
        assert bool(expected) != circuits.all_closed
        assert expected | {_ALL} == set(circuits.views)


@pytest.fixture
def _often_interrupted() -> Iterator[None]:
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before_s)


@pytest.mark.usefixtures("_often_interrupted")
def test_two_threads_ask_for_a_breaker() -> None:
    """They get the same. The bug: one of them got a breaker that nobody ever opens, and its
    listeners heard nothing."""
    for _ in range(500):
        circuits: Circuits[Message] = Circuits("billing")
        meeting = threading.Barrier(2)
        found: list[Any] = []

        def ask(circuits: Circuits[Message], meeting: threading.Barrier, found: list[Any]) -> None:
            meeting.wait()
            found.append(circuits.breaker(_ONE))

        threads = [threading.Thread(target=ask, args=(circuits, meeting, found)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found[0] is found[1]
