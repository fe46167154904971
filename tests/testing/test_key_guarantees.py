"""What a log must show where a key is the unit of order."""

from collections.abc import Sequence

import pytest

from linear_retry.scope import Scope
from linear_retry.testing import Crashed, Entry, Guarantee, Place, all_guarantees, broken
from tests.testing.logs import (
    P0,
    VISIBLE,
    attempt,
    begun,
    blocked,
    closed,
    committed,
    letter,
    life,
    opened,
    retried,
    stays_open,
    unsent,
)

_A, _WIDE = Scope(*P0, "a"), Scope()
_KEYS = {
    Place(*partition, offset): "a" if offset != 1 else "b"
    for partition, offsets in VISIBLE.items()
    for offset in offsets
}
_FAILED = [*attempt(1, 0, outcome="failed"), opened(1, 0, scope=_A)]
_RECOVERED = [*attempt(2, 0), closed(2, _A)]
_OTHERS = [*attempt(3, 2), *attempt(3, 0, ("orders", 1)), *attempt(3, 1, ("orders", 1))]

HOLD: dict[str, list[Entry]] = {
    "another key goes on while one is held": life(_FAILED, attempt(1, 1), _RECOVERED, _OTHERS),
    "two keys at the same time": life(
        begun(1, 0), attempt(1, 1), attempt(2, 0)[1:], _OTHERS, committed(4, 3, 2)
    ),
    "a blocked key that an operator retries": life(
        attempt(1, 0, outcome="failed"),
        blocked(1, 0, _A),
        attempt(1, 1),
        retried(3, 0, _A),
        attempt(3, 0),
        closed(3, _A),
        attempt(4, 2),
        _OTHERS[2:],
    ),
    "an outage of all": life(
        _FAILED,
        opened(1, 0, delay_s=9.0),
        attempt(1.5, 1, outcome="failed"),
        stays_open(1.5, 1, 1, delay_s=9.0, scope=_WIDE),
        _RECOVERED,
        closed(2),
        attempt(2, 1),
        _OTHERS,
    ),
    "a probe of a whole outage that failed does not count": life(
        attempt(0.5, 0, outcome="failed"),
        _FAILED,
        attempt(2, 0, outcome="failed"),
        stays_open(2, 0, 2, scope=_A),
        attempt(3, 0, outcome="failed"),
        letter(3, 0, 3),
        closed(3, _A),
        attempt(3, 1),
        _OTHERS,
    ),
}
BROKEN: dict[str, tuple[str, Sequence[Entry], str]] = {
    "a key out of order": (
        "InOrder",
        life(attempt(1, 1), attempt(1, 2), attempt(2, 0), _OTHERS[2:]),
        "orders[0]@2 was attempted before 0 was done",
    ),
    "the next of a key while one is held": (
        "NothingWhileHeld",
        life(
            _FAILED,
            attempt(1, 1),
            attempt(2, 0),
            attempt(2, 2),
            closed(2, _A),
            _OTHERS[2:],
        ),
        "orders[0]@2 was attempted while orders[0]@0 was held by one",
    ),
    "again while its letter is to be sent": (
        "NothingWhileHeld",
        life(
            _FAILED,
            unsent(1, 0, scope=_A),
            attempt(2, 0),
            closed(2, _A),
            attempt(2, 1),
            _OTHERS,
        ),
        "orders[0]@0 was attempted while orders[0]@0 was held by one",
    ),
    "before its time": (
        "NothingEarly",
        life(_FAILED, attempt(1.5, 0), closed(2, _A), attempt(2, 1), _OTHERS),
        "orders[0]@0 was attempted 0.500000 s early by one",
    ),
    "a blocked key by itself": (
        "NothingEarly",
        life(
            attempt(1, 0, outcome="failed"),
            blocked(1, 0, _A),
            attempt(3, 0),
            closed(3, _A),
            attempt(4, 1),
            _OTHERS,
        ),
        "orders[0]@0 was attempted though it waits for an operator, by one",
    ),
    "the next of a key that is blocked": (
        "NothingWhileHeld",
        life(
            attempt(1, 0, outcome="failed"),
            blocked(1, 0, _A),
            attempt(1, 1),
            retried(3, 0, _A),
            attempt(3, 0),
            attempt(4, 2),
            closed(4, _A),
            _OTHERS[2:],
        ),
        "orders[0]@2 was attempted while orders[0]@0 was held by one",
    ),
    "twice at the same time": (
        "OneAtATime",
        life(begun(1, 1), attempt(1, 1), attempt(2, 0), _OTHERS),
        "orders[0]@1 was attempted by one beside orders[0]@1",
    ),
}


def _guarantees() -> list[Guarantee]:
    return all_guarantees(VISIBLE, strategy_length=2, keys=_KEYS)


@pytest.mark.parametrize("log", [pytest.param(log, id=name) for name, log in HOLD.items()])
def test_what_may_happen_breaks_nothing(log: list[Entry]) -> None:
    """Every guarantee holds where one key waits, and the others pass."""
    assert [] == [*map(str, broken(log, _guarantees()))]


@pytest.mark.parametrize(
    ("guarantee", "log", "text"), [pytest.param(*case, id=name) for name, case in BROKEN.items()]
)
def test_what_breaks_one_breaks_only_that(guarantee: str, log: list[Entry], text: str) -> None:
    """The violation names its guarantee."""
    assert [(guarantee, text)] == [(one.guarantee, one.text) for one in broken(log, _guarantees())]


def test_the_dead_run_nothing() -> None:
    """What a killed member was attempting does not stand in the way of its next life."""
    log: list[Entry] = [begun(1, 0), Crashed(1, "one"), begun(2, 0)]
    assert [] == broken(log, [one for one in _guarantees() if "OneAtATime" in str(type(one))])
