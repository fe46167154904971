"""Do the laws of promptness see what breaks them?"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from linear_retry import events
from linear_retry.scope import Partition, Scope
from tests.guarantees import Away, Begun, Ended, Entry, Place, Said, nothing_while_open
from tests.promptness import LATE_S, nothing_late, others_go_on

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_HELD, _OTHER = ("a", 0, 0), ("b", 0, 0)


def _opened(at_s: float, delay_s: float, place: Place = _HELD) -> Said:
    scope = Scope(*place[:2])
    return Said(at_s, "m", events.CircuitOpened(scope, *place, "down", 1, delay_s, _NOW))


def _begun(at_s: float, place: Place = _HELD) -> Begun:
    return Begun(at_s, "m", place)


def _ended(at_s: float, place: Place = _HELD) -> Ended:
    return Ended(at_s, "m", place, "done")


def _closed(scope: Scope) -> Said:
    return Said(2.0, "m", events.CircuitClosed(scope, "recovered", 1.0))


def _assigned(*partitions: Partition) -> Said:
    return Said(0.0, "m", events.Assigned(partitions))


@pytest.mark.parametrize(
    ("log", "broken"),
    [
        ([_opened(0, 1), _begun(1 + LATE_S / 2)], 0),
        ([_opened(0, 1), _begun(1 + LATE_S * 2)], 1),
        ([_opened(0, 1), _begun(0.5, _OTHER), _ended(9, _OTHER), _begun(9)], 0),
        ([_opened(0, 1), _begun(0.5, _OTHER), _ended(9, _OTHER), _begun(9.5)], 1),
        ([_opened(0, 1), Away(9, "m", 0.5), _begun(9)], 0),
        ([_opened(0, 1), Away(9, "m", 1.5), _begun(9)], 1),
        ([_opened(0, 1), _begun(1.01, _OTHER), _begun(1.01)], 0),
        ([_opened(0, 1), _begun(1.01, _OTHER), _begun(1.01, _OTHER), _begun(1.01)], 1),
        ([_opened(0, 1), _opened(0, 1, _OTHER), _begun(1, _OTHER), _ended(9), _begun(9)], 0),
        ([_opened(0, 1), Said(0.5, "m", events.Revoked((("a", 0),))), _begun(9)], 0),
    ],
)
def test_a_late_probe_is_seen(log: list[Entry], broken: int) -> None:
    """Late is what the member had time for, or what others were let go before; a call in progress,
    another probe, a member that is not there and a held message that is gone excuse."""
    assert broken == len(list(nothing_late(log)))


@pytest.mark.parametrize(
    ("log", "broken"),
    [
        ([_assigned(("a", 0)), _ended(1)], 0),
        ([_assigned(("a", 0))], 1),
        ([_assigned(("a", 0)), _opened(1, 9)], 0),
        ([_assigned(("a", 0)), _opened(1, 9, _OTHER)], 1),
        ([_assigned(("a", 0)), _opened(1, 9), _closed(Scope("a", 0))], 1),
    ],
)
def test_what_stands_still_is_seen(log: list[Entry], broken: int) -> None:
    """Undone with no open circuit over it, or with another scope's only."""
    assert broken == len(list(others_go_on(log, {("a", 0): [0]})))


@pytest.mark.parametrize(("times", "broken"), [(1, 0), (2, 1)])
def test_a_circuit_opened_twice_is_seen(times: int, broken: int) -> None:
    """What is open cannot open: one scope has one held message."""
    assert broken == len(list(nothing_while_open([_opened(0, 1)] * times)))
